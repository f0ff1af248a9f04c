"""Thresholds of text queries: stored apart from those of images, fitted on labels, and refused for anything else."""

import json

import numpy as np
import pytest

from tests.commands import functions_of
from tests.serving.http.fake_service import in_json, running
from tests.serving_fixtures import picture
from tfdml.evaluation.verification.text_pairs import TextPairs
from tfdml.evaluation.verification.thresholds import fit_threshold
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.run.experiment.labeled_embeddings import texts_of_files
from tfdml.run.experiment.threshold import Threshold, fit
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.index.threshold import CurrentThreshold, difference, put_threshold, threshold_for
from tfdml.serving.model_card import read_card

RATES = {"false_accept_rate": 0.008, "true_accept_rate": 0.7, "precision": 0.8}
OF_IMAGES = {"distance": "cosine", "far": 0.01, "classes": 8, "threshold": 0.9, **RATES}
OF_TEXTS = {**OF_IMAGES, "queries": "text", "threshold": 0.25}


def changed(index, **changes):
    """The searcher of an index with a card that says other things."""
    (index / "model" / "metadata.json").write_text(json.dumps({**read_card(index / "model"), **changes}))
    return Searcher(index)


def test_each_kind_of_query_has_its_own(index):
    searcher = changed(index, threshold=OF_IMAGES)
    assert threshold_for(searcher).value == 0.9 and threshold_for(searcher, "", "text") == Threshold()
    put_threshold(index, Threshold.of({**OF_TEXTS, "embeddings": "a"}), index / "embeddings")
    assert threshold_for(searcher).value == 0.9 and threshold_for(searcher, "", "text") == Threshold(0.25, OF_TEXTS)
    assert "| text threshold | 0.2500;" in (index / "model" / "README.md").read_text()
    assert CurrentThreshold("", "text")(searcher).value == 0.25
    assert threshold_for(searcher, "", "text").in_words(1000) == (
        "Using the text threshold 0.2500, which tfdml.threshold fitted for a false accept rate of 0.01 on 8 classes. "
        "By chance, it accepts about 8 of 1,000 images that do not match. To use no threshold, set --threshold=none."
    )
    # It says nothing about pairs of images in the index.
    assert difference(searcher, threshold_for(searcher, "", "text")) is None


@pytest.mark.parametrize(
    "queries, changes, words",
    [
        ("text", {"text_threshold": OF_IMAGES}, "a threshold for image queries instead of one for text queries"),
        ("image", {"threshold": OF_TEXTS}, "a threshold for text queries instead of one for image queries"),
        ("text", {"text_threshold": OF_TEXTS, "sha256": "0" * 64}, "was fitted for another model"),
        ("text", {"text_threshold": {**OF_TEXTS, "threshold": None}}, "its threshold is not a number"),
    ],
)
def test_a_threshold_of_something_else_is_refused(index, queries, changes, words):
    with pytest.raises(ValueError, match=words):
        threshold_for(changed(index, **changes), "", queries)


def test_it_is_fitted_on_labels(index):
    model = ExportedModel(index / "model")
    labeled = texts_of_files(str(index / "embeddings"), "a {}|an {} number", model.embed_texts)
    found = fit(labeled, {"precision": 0.3}, samples=100, seed=0)
    # All texts and all images, with the pairs of equal labels.
    files = EmbeddingFiles.read(index / "embeddings")
    names = [files.class_names[label] for label in files.labels]
    texts = ["a even", "an even number", "a odd", "an odd number"]
    pairs = [(row, text) for row, name in enumerate(names) for text in range(4) if texts[text].split()[1] == name]
    expected = TextPairs.of(files.embeddings, model.embed_texts(texts), np.array(pairs), files.labels)
    assert found.value == fit_threshold(expected, precision=0.3, samples=100)["threshold"]
    about = {name: found.fitted[name] for name in ("queries", "distance", "precision", "captions", "classes")}
    about.pop("precision")
    assert about == {"queries": "text", "distance": "cosine", "captions": "a {}|an {} number", "classes": 2}
    assert found.fitted["pairs"] == {"same": 24, "different": 24} and found.queries == "text"


def test_searches_by_text_use_it(index, capsys):
    show = functions_of("tfdml.search").print_neighbors
    neighbors = Searcher(index).search_vectors(Searcher(index).embed_query(None, "a red van"), 3)[0]
    least = (neighbors[0].similarity + neighbors[1].similarity) / 2
    searcher = changed(index, threshold=OF_IMAGES, text_threshold={**OF_TEXTS, "threshold": least})
    show(searcher, [], "", "json", k=3, text="a red van")
    (found,) = json.loads(capsys.readouterr().out)
    assert [each["accepted"] for each in found["neighbors"]] == [True, False, False]
    assert found["threshold"]["threshold"] == least
    # Another number leaves out neighbors, and an image together with a text has no threshold.
    show(searcher, [], str(least), "table", k=3, text="a red van")
    assert len(capsys.readouterr().out.splitlines()) == 2
    show(searcher, [str(index.parent / "photos" / "odd" / "03.png")], "", "json", k=3, text="a red van")
    (found,) = json.loads(capsys.readouterr().out)
    assert "threshold" not in found and "accepted" not in found["neighbors"][0]


def test_the_service_uses_it(index):
    searcher = changed(index, threshold={**OF_IMAGES, "threshold": -0.5}, text_threshold=OF_TEXTS)
    thresholds = {"threshold": CurrentThreshold(), "text_threshold": CurrentThreshold("", "text")}
    with running(searcher, **thresholds) as client:
        assert client.post("/search", json={"text": "a red van"}).json()["threshold"] == 0.25
        assert client.post("/search", json=in_json(picture(3))).json()["threshold"] == -0.5
        assert "threshold" not in client.post("/search", json=in_json(picture(3), text="a red van")).json()
