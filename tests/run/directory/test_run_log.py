"""The log of a run."""

import json

import tensorflow as tf

from tfdml.run.loggers import RunLog


def test_a_metric_without_a_value_is_null_and_no_scalar(tmp_path):
    RunLog(tmp_path).write("evaluation", 3, {"distance_ratio": None, "recall_at_1": 0.5})
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"event": "evaluation", "step": 3, "distance_ratio": None, "recall_at_1": 0.5}
    (path,) = (tmp_path / "tensorboard").iterdir()
    tags = [value.tag for event in tf.compat.v1.train.summary_iterator(str(path)) for value in event.summary.value]
    assert tags == ["evaluation/recall_at_1"]
