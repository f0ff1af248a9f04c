"""Thresholds that an index has with its model: where they come from, and what the commands do with them."""

import itertools
import json
import shutil

import numpy as np
import pytest

import tfdml
from tests.commands import functions_of
from tests.serving.index.test_indexing import write_pictures
from tests.serving_fixtures import SIZE, exported, nearly, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import compared_vectors
from tfdml.run.experiment.threshold import Threshold
from tfdml.serving import Searcher
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
from tfdml.serving.index.labeling import duplicates
from tfdml.serving.index.searcher import adaptive_search, kept
from tfdml.serving.index.threshold import CurrentThreshold, difference, put_threshold, threshold_for
from tfdml.serving.model_card import read_card, write_card

FITTED = {
    "dataset": "toycars",
    "split": "validation",
    "protocol": "self_retrieval",
    "distance": "cosine",
    "far": 0.01,
    "classes": 8,
    "threshold": 0.9,
    "false_accept_rate": 0.008,
    "true_accept_rate": 0.7,
    "precision": 0.8,
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Forty photos of two labels."""
    return write_pictures(tmp_path_factory.mktemp("photos"), range(40))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The exported model with a card that says a threshold."""
    folder = tmp_path_factory.mktemp("model") / "exported"
    shutil.copytree(exported(), folder)
    network = {"model": "best", "method": "divide_and_conquer", "backbone": "small", "head": "linear"}
    facts = {**network, "weights": "random", "weights_license": "none needed", "scores": {}}
    facts |= {"data": {"dataset": "toycars", "protocol": "", "queries": None, "selected_on": None, "projected": ""}}
    facts |= {"sha256": model_hash(folder), "tolerant": False, "lite": None, "onnx": False}
    embedding = {"dimension": 16, "metric": "cosine", "learners": 2, "learner_dimension": 8, "projection": ""}
    facts |= {"embedding": embedding, "images": {"image_size": SIZE, "transform": "center_crop"}, "versions": {}}
    write_card(folder, {**facts, "threshold": FITTED})
    return folder


@pytest.fixture(scope="module")
def made(photos, model, tmp_path_factory):
    out = tmp_path_factory.mktemp("index") / "index"
    index_images(out, ImageList.of(photos), model=model)
    return out


@pytest.fixture
def index(made, tmp_path):
    """A copy, to change."""
    return shutil.copytree(made, tmp_path / "index")


def changed(index, **changes):
    """The searcher of an index whose card says other things."""
    write_card(index / "model", {**read_card(index / "model"), **changes})
    return Searcher(index)


def test_an_index_has_the_threshold_of_its_model(index):
    searcher = Searcher(index)
    assert threshold_for(searcher) == Threshold(0.9, FITTED)
    assert threshold_for(searcher, "0.5") == threshold_for(searcher, 0.5) == Threshold(0.5)
    assert threshold_for(searcher, 0) == Threshold(0) and threshold_for(searcher, "none") == Threshold()
    assert Threshold(0.5).accepts(0.5) and not Threshold(0.5).accepts(0.49) and Threshold().accepts(-1)
    assert threshold_for(searcher).in_words(1000) == (
        "Using the threshold 0.9000, which tfdml.threshold fitted for a false accept rate of 0.01 on 8 classes of "
        "toycars (validation). By chance, it accepts about 8 of 1,000 images of other classes. To use no threshold, "
        "set --threshold=none."
    )
    card = read_card(index / "model")
    del card["threshold"]
    write_card(index / "model", card)
    assert threshold_for(Searcher(index)) == Threshold()
    for wrong, words in {
        "much": "must be a number or none",
        "2": "must be at most 1, because the similarity is a cosine",
        "nan": "must be at most",
    }.items():
        with pytest.raises(ValueError, match=f"{words}.* Received: --threshold={wrong}"):
            threshold_for(searcher, wrong)


def test_a_service_follows_a_new_threshold(index, caplog):
    searcher, current, card = Searcher(index), CurrentThreshold(), index / "model" / "metadata.json"
    assert current(searcher).value == 0.9
    put_threshold(index, Threshold.of({**FITTED, "threshold": 0.25}), index / "embeddings")
    assert current(searcher) is current(searcher) and current(searcher).value == 0.25
    # Without a card of the model, everything would be accepted.
    facts = json.loads(card.read_text())
    for text in (json.dumps({**facts, "sha256": "0" * 64, "threshold": None}), "{"):
        card.write_text(text)
        assert current(searcher).value == 0.25
    assert "continues with the threshold that it has" in caplog.text
    with pytest.raises(ValueError):
        CurrentThreshold()(searcher)
    card.unlink()
    assert current(searcher).value == 0.25
    del facts["threshold"]
    card.write_text(json.dumps(facts))
    assert current(searcher) == Threshold()
    assert CurrentThreshold("0.5")(searcher) == Threshold(0.5)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"sha256": "0" * 64}, "was fitted for another model than the one next to it"),
        ({"threshold": {**FITTED, "distance": "euclidean"}}, "for the distance 'euclidean', but the index uses"),
        ({"threshold": {**FITTED, "threshold": float("nan")}}, "its threshold is not a number"),
        ({"threshold": {**FITTED, "false_accept_rate": "a"}}, "its threshold is not a number"),
    ],
)
def test_a_threshold_of_something_else_is_refused(index, changes, words):
    (index / "model" / "metadata.json").write_text(json.dumps(read_card(index / "model") | changes))
    with pytest.raises(ValueError, match=words):
        threshold_for(Searcher(index))
    assert threshold_for(Searcher(index), "none") == Threshold()


def test_a_threshold_of_new_embeddings_goes_into_an_index_and_a_model(index, model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "exported")
    fitted = {**FITTED, "threshold": 0.25, "embeddings": "embedded"}
    for target in (index, copy):
        put_threshold(target, Threshold.of(fitted), index / "embeddings")
    assert threshold_for(Searcher(index)).value == 0.25 and "embeddings" not in read_card(copy)["threshold"]
    assert "| threshold | 0.2500;" in (copy / "README.md").read_text()
    other = EmbeddingShards.create(tmp_path / "other", model="0" * 64, dimension=4)
    with pytest.raises(ValueError, match="were not computed by the model in"):
        put_threshold(index, Threshold.of(fitted), other.folder)
    with pytest.raises(ValueError, match="is for the distance 'euclidean', but the model uses 'cosine'"):
        put_threshold(index, Threshold.of({**fitted, "distance": "euclidean"}), index / "embeddings")
    shutil.rmtree(copy)
    shutil.copytree(exported(), copy)
    with pytest.raises(ValueError, match="has no metadata.json that belongs to its model"):
        put_threshold(copy, Threshold.of(fitted), index / "embeddings")


def test_a_threshold_of_a_run_goes_into_an_index_of_its_model(index):
    fitted = {**FITTED, "threshold": 0.25, "run_dir": "runs/a", "model": "best", "sha256": "1" * 64}
    for of_run in (None, "2" * 64):
        write_card(index / "model", {**read_card(index / "model"), "run_sha256": of_run})
        with pytest.raises(
            ValueError, match="is not known to be an export of the best model of runs/a. It is from another run"
        ):
            put_threshold(index, Threshold.of(fitted))
    write_card(index / "model", {**read_card(index / "model"), "run_sha256": "1" * 64})
    put_threshold(index, Threshold.of(fitted))
    assert threshold_for(Searcher(index)) == Threshold(0.25, {**FITTED, "threshold": 0.25, "model": "best"})


def test_images_that_differ_from_those_of_the_fit_are_told(index):
    searcher = Searcher(index)
    vectors = compared_vectors(
        np.concatenate([block.embeddings for block in EmbeddingShards(index / "embeddings").blocks()]), "cosine"
    )
    labels = searcher.store.rows.labels
    products = [
        float(vectors[a] @ vectors[b])
        for a, b in itertools.combinations(range(len(labels)), 2)
        if labels[a] != labels[b]
    ]
    assert len(products) == 400
    least = float(np.sort(products)[-100])
    for rate, differs in ((0.25, False), (0.1, False), (0.7, False), (0.05, True), (0.9, True)):
        told = difference(searcher, Threshold(least, {**FITTED, "false_accept_rate": rate}))
        assert (told is not None) == differs, (rate, told)
    assert "a fraction of 0.25 of 400 pairs with different labels, instead of 0.9" in told
    assert difference(searcher, Threshold(least)) is None
    # Four pairs show nothing.
    assert difference(searcher, Threshold(float(np.sort(products)[-4]), {**FITTED, "false_accept_rate": 0})) is None


def test_a_search_marks_what_is_below(index, photos, capsys):
    searcher, query = Searcher(index), str(photos / "odd" / "03.png")
    show = functions_of("tfdml.search").print_neighbors
    neighbors = searcher.search([query], 3)[0]
    least = (neighbors[0].similarity + neighbors[1].similarity) / 2
    searcher = changed(index, threshold={**FITTED, "threshold": least})
    show(searcher, [query], "", "table", k=3)
    first, name, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Using the threshold {least:.4f}, which tfdml.threshold") and name == query
    assert [row.split()[1] for row in rows] == ["accepted", "below", "below"]
    show(searcher, [query], "", "json", k=3)
    (found,) = json.loads(capsys.readouterr().out)
    assert [each["accepted"] for each in found["neighbors"]] == [True, False, False]
    assert found["threshold"]["threshold"] == least
    # What --threshold sets wins, and leaves out what is below.
    show(searcher, [query], str(least), "table", k=3)
    assert len(capsys.readouterr().out.splitlines()) == 2
    show(searcher, [query], "none", "json", k=3)
    (found,) = json.loads(capsys.readouterr().out)
    assert found.keys() == {"query", "neighbors"} and "accepted" not in found["neighbors"][0]


def test_labels_take_it_and_duplicates_do_not(index, photos, tmp_path, capsys):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.png").write_bytes(nearly((photos / "odd" / "03.png").read_bytes()))
    (tmp_path / "new" / "b.png").write_bytes(picture(99))
    near, far = (found[0].similarity for found in Searcher(index).search(sorted((tmp_path / "new").iterdir()), 1))
    searcher = changed(index, threshold={**FITTED, "threshold": (near + far) / 2})
    search = functions_of("tfdml.search")
    search.print_labels(searcher, tmp_path / "new", "", "table", k=1)
    first, a, b = capsys.readouterr().out.splitlines()
    assert (first.split()[0], a.split()[1], b.split()[1]) == ("Using", "odd", "unknown")
    search.print_labels(searcher, tmp_path / "new", "", "json", k=1)
    found = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in found["images"]] == ["odd", None] and found["threshold"]["far"] == 0.01
    search.print_labels(searcher, tmp_path / "new", "none", "table", k=1)
    assert "unknown" not in capsys.readouterr().out
    with tfdml.Index.open(index) as opened:
        assert [each.label for each in opened.label(tmp_path / "new", k=1)] == ["odd", None]
        assert None not in [each.label for each in opened.label(tmp_path / "new", k=1, threshold=-1)]
    for text, least in (("", 0.95), ("none", 0.95), ("-1", -1.0)):
        search.print_duplicates(searcher, text, "table")
        assert capsys.readouterr().out.endswith(f"{len(duplicates(searcher, least)):,} pairs\n")
    assert len(duplicates(searcher, 0.95)) < len(duplicates(searcher, -1.0)) == 40 * 39 // 2


def test_labels_without_any_threshold(photos, tmp_path):
    index_images(tmp_path / "index", ImageList.of(photos), model=exported())
    with pytest.raises(
        ValueError, match="--label needs a threshold. Set --threshold, set --validation .*, or fit a threshold"
    ):
        functions_of("tfdml.search").print_labels(Searcher(tmp_path / "index"), photos, "", "table", k=3)


def test_lists_are_cut_at_the_largest_fall(index, photos):
    random = np.random.default_rng(0)
    for _ in range(50):
        similarities = np.sort(random.uniform(-1, 0.9, 6))[::-1]
        falls = [one - other for one, other in itertools.pairwise(similarities)]
        assert kept(similarities) == 1 + falls.index(max(falls))
        # A copy of the query in front changes nothing.
        assert kept([1.0, 1.0, *similarities]) == 3 + falls.index(max(falls))
        assert kept(10 * (similarities - 1), "euclidean") == 1 + falls.index(max(falls))
    assert (kept([]), kept([1.0]), kept([0.4]), kept([1.0, 0.4]), kept([0.4, 0.4])) == (0, 1, 1, 2, 1)
    query = str(photos / "odd" / "03.png")
    for k in (1, 2, 7, 100):
        similarities = [each.similarity for each in Searcher(index).search([query], k + 1)[0]]
        (neighbors,) = adaptive_search(Searcher(index), [query], k)
        assert len(neighbors) == min(kept(similarities), k)
