"""The tables and the picture of docs/labels.md, from records."""

import importlib
import json
from xml.etree import ElementTree

import pytest

from benchmarks.pages import recorded
from benchmarks.pages.seed_variance import SeedVariances
from benchmarks.studies import labels
from benchmarks.studies.rows import emoji_other_labels as others
from benchmarks.studies.sources_of_labels import BOTH, CLASSES, CLUSTERS, LOSSES, VIEWS, wrong
from tfdml.run.study.runs import resolved, runs_of

PLACES = ("what labels teach", *labels.OF_OTHERS, "wrong labels")
PAGE = "before\n\n" + "\n\n".join(f"{labels.BEGIN.format(name)}\n{labels.END}" for name in PLACES)


def record_of(study, row, flags, right, features):
    """A record of a run that was not there: so many of ten queries of each of four classes were right."""
    declared = importlib.import_module(f"benchmarks.studies.rows.{study}").STUDY
    (run,) = runs_of([*declared.flags(row), *flags], ["0"], "")
    result = {"metrics": {"recall_at_1": right / 10, "map_at_r": 0.1}, "untrained": {"recall_at_1": 0.25}, "seconds": 1}
    if features:
        result["features"] = {"recall_at_1": 0.125}
    return {
        "run": run.path.name,
        "flags": [*resolved(run.arguments).values()],
        "result": result,
        "curve": [],
        "measured": {"queries": [10] * 4, "right": [right] * 4},
    }


def pages_of(records, tmp_path, monkeypatch):
    """The page and the pictures of some records."""
    file = tmp_path / "records/labels.jsonl"
    file.parent.mkdir()
    monkeypatch.setattr(recorded, "RECORDS", file.parent)
    # No row has several seeds.
    monkeypatch.setattr(recorded, "seed_variances", lambda: SeedVariances(file.parent))
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    found = labels.recorded_in(tmp_path / "runs")
    page, pictures = labels.page_of(found, PAGE), labels.pictures_of(found)
    # Writing once more changes nothing.
    assert labels.page_of(found, page) == page
    return page, [pictures.get(file) for file in (labels.PICTURE, labels.PICTURE_OF_EMOJI)]


def texts_of(picture):
    return [each.text for each in ElementTree.fromstring(picture).iter() if each.tag.endswith("text")]


def test_what_is_recorded_is_told(tmp_path, monkeypatch):
    recalls = {VIEWS: 1, CLUSTERS: 2, BOTH: 3, CLASSES: 4}
    records = [record_of("emoji_labels", row, labels.FINE, right, True) for row, right in recalls.items()]
    records += [record_of("cars_labels", row, labels.RANDOM, 5, False) for row in (VIEWS, CLASSES)]
    loss, other = list(LOSSES)[:2]
    records += [record_of("cars_wrong_labels", row, (), right, True) for row, right in ((loss, 8), (wrong(loss), 6))]
    records += [record_of("cars_wrong_labels", other, (), 7, True)]
    for row, scores in ((others.PAIRS, (0.75, 0.25)), (others.FINE_ONLY, (0.25, 0.5, 0.75))):
        records.append(record_of("emoji_other_labels", row, (), 5, False))
        named = dict(zip(others.METRICS[row], scores, strict=True))
        records[-1]["result"] |= {"metrics": named, "features": {name: value / 2 for name, value in named.items()}}
    page, (of_sets, of_emoji) = pages_of(records, tmp_path, monkeypatch)
    assert "| emoji, ImageNet weights | 12.5 | 25.0 | 10.0 | 20.0 | 30.0 | 40.0 |" in page
    assert "| cars, random weights | – | 25.0 | 50.0 | – | – | 50.0 |" in page and "Omniglot" not in page
    assert f"| {loss} | 80.0 | 60.0 | -20.0 (-20.0 to -20.0) |" in page and f"| {other} | – | – | – |" in page
    assert "| Trained with | `roc_auc` | `equal_error_rate` |" in page and "| pairs | 75.0 | 25.0 |" in page
    assert "| pretrained features | 37.5 | 12.5 |" in page
    # Of levels one of three rows is there.
    assert "hierarchical_ap" not in page
    assert "](labels_sources.svg)" in page and page.startswith("before\n\n<!--")
    assert texts_of(of_sets)[:3] == ["emoji, ImageNet weights", "pretrained features", "12.5"]
    assert texts_of(of_sets).count("50.0") == 2
    # Those of cars are not there.
    heads = [each for each in texts_of(of_emoji) if ":" in each]
    assert heads == ["no labels, and classes: Recall@1", "pairs: roc_auc"]
    assert texts_of(of_emoji)[-4:] == ["pretrained features", "37.5", "pairs", "75.0"]


def test_without_records_there_is_no_table(tmp_path, monkeypatch):
    assert pages_of([], tmp_path, monkeypatch) == (PAGE, [None, None])


def test_a_page_without_the_place_of_a_table_is_refused(tmp_path):
    with pytest.raises(ValueError, match="labels.md must have the lines <!-- Written by .*: wrong labels. --> and"):
        labels.page_of([{}, {}, {}], PAGE.partition("\n\n<!-- Written")[0] + PAGE.split("\n\n")[1])


def test_the_page_and_the_pictures_of_the_docs_are_those_of_the_records(tmp_path):
    found = labels.recorded_in(tmp_path)
    written = {labels.PAGE: labels.page_of(found, labels.PAGE.read_text(encoding="utf-8")), **labels.pictures_of(found)}
    for file, content in written.items():
        assert file.read_text(encoding="utf-8") == content, "run: python -m benchmarks.studies.labels"
