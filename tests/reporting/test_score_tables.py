"""The metrics of a run on its page."""

import json
import re
from types import SimpleNamespace

import numpy as np

from tfdml.console import flags
from tfdml.evaluation.protocols import protocol_of
from tfdml.reporting.tables import score_tables
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.directory.run_record import Record

EVENTS = [
    {"event": "evaluation", "split": "validation", "step": 0, "seconds": 1.0, "queries": 4, "recall_at_1": 0.125},
    {"event": "evaluation", "split": "validation", "step": 10, "seconds": 1.0, "queries": 4, "recall_at_1": 0.75},
    {"event": "evaluation", "split": "validation", "step": 20, "seconds": 1.0, "queries": 4, "recall_at_1": 0.5},
]
BEST = {"recall_at_1": 0.75, "step": 10, "selected_on": "validation", "selected_by": "recall_at_1"}
# Three of four find their class.
EMBEDDINGS = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.3]])


def subject(queries=4):
    rows = SimpleNamespace(labels=np.array([0, 0, 1, 1])[:queries])
    splits = SimpleNamespace(protocol=protocol_of("self_retrieval(metrics=('recall_at_1', 'nmi'))"))
    experiment = SimpleNamespace(splits=splits, monitor="recall_at_1")
    return SimpleNamespace(experiment=experiment, embeddings=EMBEDDINGS[:queries], test=rows)


def record(tmp_path, result=None, events=EVENTS):
    (tmp_path / "flags.txt").write_text("".join(f"{line}\n" for line in flags.resolve([]).values()))
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return Record(RunDirectory(tmp_path), result or {})


def words(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_run_that_goes_on_is_measured_for_the_report(tmp_path):
    told = words(score_tables(record(tmp_path), subject()))
    assert "Test split, measured for this report Model Recall@1 Best so far (step 10) 75.0% 50.0 to 100.0" in told
    while_training = "Model Recall@1 Before training (step 0) 12.5% Latest (step 20) 50.0%"
    assert f"Validation split, while training {while_training}" in told
    assert told.endswith("Small numbers are 95% confidence intervals (bootstrap over classes).")


def test_without_a_model_there_is_the_log_and_without_that_nothing(tmp_path):
    told = words(score_tables(record(tmp_path), None))
    assert told.startswith("Validation split, while training") and "bootstrap" not in told
    assert score_tables(record(tmp_path, events=[]), None) is None


def test_a_complete_run_has_the_scores_of_its_result(tmp_path):
    part = {"untrained": {"recall_at_1": 0.1}, "metrics": {"recall_at_1": 0.6}}
    result = {**part, "best": BEST, "step": 20, "validation": {**part, "best": {"recall_at_1": 0.8}}}
    test, validation = words(score_tables(record(tmp_path, result), subject())).split(" Validation split ")
    assert test == (
        "Test split Model Recall@1 Before training 10.0% Best (step 10) 75.0% 50.0 to 100.0 Final (step 20) 60.0%"
    )
    assert validation.startswith(
        "Model Recall@1 Before training 10.0% Best (step 10) 80.0% Final (step 20) 60.0% Small"
    )


def test_a_result_says_what_its_scores_are_made_of(tmp_path):
    sizes = {"head": {"classes": 2, "images": 1200, "recall_at_1": 0.5}, "tail": {"classes": 3, "images": 6}}
    part = {"untrained": {"recall_at_1": 0.1}, "metrics": {"recall_at_1": 0.6}}
    nearest = {"class": 0.5, "make": 0.375, "none": 0.125}
    result = {**part, "best": BEST, "step": 20, "by_class_size": sizes, "nearest": nearest}
    told = words(score_tables(record(tmp_path, result), subject()))
    assert "Classes classes images Recall@1 head 2 1,200 50.0% tail 3 6 –" in told
    assert "Finest shared level Images the class 50.0% the make 37.5% nothing 12.5%" in told
