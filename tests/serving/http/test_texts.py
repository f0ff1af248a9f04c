"""Searches by text, and by an image and a text together, over HTTP, on every store."""

import json

import numpy as np
import pytest

from tests.serving.http.fake_service import FakeSearcher, TextSearcher, assert_refused, encoded, in_json, running
from tests.serving.index.store_places import place
from tests.serving.index.test_indexing import write_pictures
from tests.serving_fixtures import exported_towers, picture
from tfdml.serving import ExportedModel
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
from tfdml.serving.index.index import Index
from tfdml.serving.index.searcher import searcher_of
from tfdml.serving.index.stores.engine import load_images
from tfdml.serving.index.stores.store import open_store


@pytest.fixture
def searcher():
    return TextSearcher(["a.png", "b.png"])


@pytest.fixture
def client(searcher):
    with running(searcher) as started:
        yield started


def test_a_text_is_the_query(client, searcher):
    for sent in ({"json": {"text": "red mug", "k": 1}}, {"files": {"text": (None, "red mug"), "k": (None, "1")}}):
        found = client.post("/search", **sent)
        assert found.status_code == 200, found.text
        assert [each["id"] for each in found.json()["neighbors"]] == [100]
    assert searcher.texts == ["red mug"] * 2 and searcher.vectors == [[7, 1, 2, 3]] * 2
    assert client.post("/search", json={"text": "mug", "where": "price < 20"}).json()["matching"] == 7


@pytest.mark.parametrize("weight", [None, 0, 0.25, 1])
def test_an_image_and_a_text_are_a_weighted_sum(client, searcher, weight):
    content = encoded()
    more = {} if weight is None else {"text_weight": weight}
    share = 0.5 if weight is None else weight
    image, text = np.array([sum(content), len(content), 0, 1]), np.array([3, 1, 2, 3])
    for sent in (
        {"json": in_json(content, text="red", **more)},
        {"files": {"image": content}, "data": {"text": "red", **more}},
    ):
        assert client.post("/search", **sent).status_code == 200
    np.testing.assert_allclose(searcher.vectors, [(1 - share) * image + share * text] * 2, rtol=1e-6)


def test_a_batch_of_all_kinds(searcher):
    from tfdml.serving.http.queries import Query, answer_all
    from tfdml.serving.index.threshold import Threshold

    image = encoded()
    queries = [
        Query(None, 2, text="four"),
        Query(image, 2),
        Query(b"damaged", 2, text="red"),
        Query(image, 2, text="red", text_weight=1.0),
        Query(None, 2, text="to"),
    ]
    answers = answer_all(searcher, queries, lambda _: Threshold(0.95), lambda _: Threshold(0.25))
    assert answers[2] is None
    found = [answer.embedding.tolist() for answer in answers if answer]
    assert found == [[4, 1, 2, 3], [sum(image), len(image), 0, 1], [3, 1, 2, 3], [2, 1, 2, 3]]
    assert [answer.threshold.value for answer in answers if answer] == [0.25, 0.95, None, 0.25]


def test_what_the_metrics_count(client):
    client.post("/search", json={"text": "red mug"})
    client.post("/search", json=in_json(encoded(), text="red"))
    lines = client.get("/metrics").text.splitlines()
    assert {"tfdml_texts_total 2.0", "tfdml_images_total 1.0", "tfdml_nearest_similarity_count 0.0"} <= set(lines)
    assert client.get("/health").json() == {"status": "ok", "token": False, "text": True}


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"text": ""}, "text is empty. Send a text, an image, or both."),
        ({"text": None}, "text is empty"),
        ({"text": " \n"}, "text must be a string of 1 to 1,000 characters, not only white space."),
        ({"text": "a" * 1001}, "text must be a string of 1 to 1,000 characters"),
        ({"text": ["red"]}, "text must be a string"),
        ({"text": 3}, "text must be a string"),
        ({"text": "a\ud800"}, "text is not valid Unicode"),
        ({"text": "red", "box": [0, 0, 1, 1]}, "box needs an image."),
        ({"text": "red", "text_weight": 0.5}, "text_weight needs both an image and a text."),
        (in_json(encoded(), text_weight=0.5), "text_weight needs both an image and a text."),
        *[
            (in_json(encoded(), text="red", text_weight=each), "text_weight must be a number from 0 to 1. Received: ")
            for each in (-0.1, 1.5, "a", True, [1], float("nan"), 10**400)
        ],
        ({"text": "red", "b64": 3}, "b64 must be a string"),
        ({"text": "red", "b64": ""}, "The image is empty"),
        ({"k": 3}, "The field b64 is missing"),
    ],
)
def test_bad_requests(client, fields, words):
    headers = {"content-type": "application/json"}
    assert_refused(client.post("/search", content=json.dumps(fields), headers=headers), 400, words)


def test_bad_forms(client):
    sent = {"text": ("a.txt", b"red")}
    assert_refused(client.post("/search", files=sent), 400, "text must be a string")
    sent = {"text": (None, "red"), "text_weight": ("a.txt", b"1")}
    assert_refused(client.post("/search", files=sent), 400, "The field text_weight contains a file. Send numbers.")


def test_only_searches_take_texts(client):
    for path in ("/label", "/embed"):
        assert_refused(client.post(path, json={"text": "red"}), 400, "Unknown field 'text'")


def test_a_model_without_a_text_tower_is_told():
    with running(FakeSearcher(["a.png"])) as client:
        for fields in ({"text": "red"}, in_json(encoded(), text="red")):
            refused = client.post("/search", json=fields)
            assert_refused(refused, 400, "This index cannot be searched by text, because its model has no text tower.")
        assert client.get("/health").json() == {"status": "ok", "token": False}


@pytest.mark.parametrize("store", ["folder", "postgresql", "qdrant"])
def test_the_service_finds_what_python_finds(store, tmp_path):
    photos, address = write_pictures(tmp_path / "photos"), place(store, tmp_path)
    model = ExportedModel(exported_towers())
    if store == "folder":
        index_images(address, ImageList.of(photos), model=exported_towers())
    else:
        with open_store(address, model=model_hash(exported_towers())) as opened:
            load_images(opened, ImageList.of(photos), model)
    searcher = searcher_of(address, exported_towers())
    with running(searcher) as client:
        answers = [
            client.post("/search", json={"text": "a red van", "k": 4}).json(),
            client.post("/search", json={"text": "a red van", "k": 4, "where": "label = 'odd'"}).json(),
            client.post("/search", json=in_json(picture(3), text="a red van", text_weight=0.25, k=4)).json(),
        ]
    searcher.store.close()
    with Index.open(address, None if store == "folder" else model) as index:
        expected = [
            index.search(text="a red van", k=4),
            index.search(text="a red van", k=4, where="label = 'odd'"),
            index.search(picture(3), text="a red van", text_weight=0.25, k=4),
        ]
    for answer, (neighbors,) in zip(answers, expected, strict=True):
        assert [each["id"] for each in answer["neighbors"]] == [each.id for each in neighbors]
        similarities = [each["similarity"] for each in answer["neighbors"]]
        np.testing.assert_allclose(similarities, [each.similarity for each in neighbors], atol=1e-5)
