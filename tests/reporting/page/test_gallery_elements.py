"""Queries and their neighbors as data, and images within their bytes."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from tfdml.evaluation.queries import RetrievalTask, Retrieved
from tfdml.reporting import page as page_images
from tfdml.reporting.page import MOST_PLACES, PlaceShares, jpeg_within, picture_figures
from tfdml.reporting.pictures.model import SimilarityMap
from tfdml.reporting.tables import (
    FEWEST,
    IMAGES,
    LARGE,
    LARGEST,
    MOST,
    gallery,
    gallery_data,
    neighbors_of,
    queries_within,
)

LABELS = np.array([0, 0, 1, 1])
EMBEDDINGS = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.3]], np.float32)
NOISE = np.random.default_rng(0).integers(0, 256, (700, 500, 3), np.uint8)
EVIL = "</option><script>"


def opened(uri):
    kind, content = uri.split(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(content)))


def found(distance="cosine"):
    retrieved = Retrieved.of(EMBEDDINGS, RetrievalTask.of(LABELS), 2, distance=distance)
    return neighbors_of(retrieved, np.array([3, 0]), EMBEDDINGS, distance)


def data(models=("",), places=None):
    neighbors = found()
    image = np.zeros((20, 30, 3), np.uint8)
    about = {"image": lambda row: image, "about": lambda row: (f"{row}.jpg", f"{EVIL}{LABELS[row]}")}
    return gallery_data(
        {"Worst": [3], "Random": [0, 3]}, {name: neighbors for name in models}, "cosine", **about, places=places
    )


def test_neighbors_with_their_similarity_and_whether_they_are_right():
    neighbors = found()
    assert [(row, right) for row, _, right in neighbors[0]] == [(1, True), (3, False)]
    assert [(row, right) for row, _, right in neighbors[3]] == [(1, False), (0, False)]
    assert neighbors[0][1][1] == pytest.approx(0.8 / np.hypot(0.8, 0.3), abs=1e-4)
    assert found("euclidean")[0][0][1] == pytest.approx(np.hypot(0.1, 0.1), abs=1e-4)


def test_a_query_of_two_kinds_is_listed_once_and_images_are_those_that_are_shown():
    made = data()
    assert [(query["row"], query["kinds"]) for query in made["queries"]] == [(3, ["Worst", "Random"]), (0, ["Random"])]
    assert made["queries"][1]["found"] == [[list(each) for each in found()[0]]]
    assert set(made["images"]) == {0, 1, 3} and made["images"][1]["name"] == "1.jpg"
    assert opened(made["images"][3]["src"])[1].size == (30, 20)


def test_words_about_queries_are_in_the_data_where_there_are_any():
    image = np.zeros((20, 30, 3), np.uint8)
    notes = {3: "nearer to mug", 0: "nearer to cup"}
    made = gallery_data(
        {"Suspects": [0, 3]}, {"": found()}, "cosine", lambda row: image, lambda row: (str(row), ""), notes=notes
    )
    assert [query["note"] for query in made["queries"]] == ["nearer to cup", "nearer to mug"]
    assert all("note" not in query for query in data()["queries"])


def test_choices_hold_any_name():
    made = gallery(data())
    assert EVIL not in made and "&lt;/option&gt;&lt;script&gt;1" in made
    assert re.findall(r'<select name="(\w+)"', made) == ["kind", "class", "right"]
    assert '<option value="Worst">Worst</option>' in made and ">right for all<" not in made
    assert ">right for all<" in gallery(data(["A", "B"]))


def test_places_of_a_query_and_a_neighbor_are_bytes_of_one_scale():
    here, there = np.zeros((2, 3)), np.full((2, 3), 0.5)
    here[1, 2], there[0, 0] = 2.0, -1.0
    one, other = SimilarityMap(1.0, here, there), SimilarityMap(1.0, np.zeros((2, 3)), np.zeros((2, 3)))
    made = data(places=PlaceShares({3: [one, other], 0: [other, other]}, lambda height, width: (0, height, 1, width)))
    assert made["grid"] == [2, 3] and made["images"][3]["seen"] == [0, 20, 1, 30]
    found = [np.frombuffer(base64.b64decode(text), np.uint8).tolist() for text in made["queries"][0]["places"]]
    assert found[0] == [128, 128, 128, 128, 128, 255, 64, 160, 160, 160, 160, 160]
    assert found[1] == [128] * 12
    assert 'id="why"' in gallery(made) and "make them similar.<" in gallery(made)
    several = data(
        ["A <b>", "B"], PlaceShares({3: [one, other], 0: [other, other]}, lambda height, width: (0, 0, 1, 1))
    )
    assert len(several["queries"][0]["places"]) == 2 and "similar, for A &lt;b&gt;.<" in gallery(several)
    assert "places" not in data()["queries"][0]
    assert 'id="why"' not in gallery(data())


def test_places_of_large_maps_are_averaged():
    large = np.zeros((2 * MOST_PLACES, 4))
    large[0] = 1.0
    places = PlaceShares({3: [SimilarityMap(1.0, large, large)]}, None)
    assert places.grid() == [MOST_PLACES, 4]
    assert base64.b64decode(places.of_query(3)[0])[:5] == bytes([255] * 4 + [128])


def test_images_are_as_large_as_their_bytes_allow_and_not_enlarged():
    picture = Image.fromarray(NOISE)
    kind, large = opened(jpeg_within(picture, 10**7))
    assert kind == "data:image/jpeg" and large.size == (500, 700)
    uri = jpeg_within(picture, 20_000)
    small = opened(uri)[1].size
    assert max(small) < 300 and small[1] / small[0] == pytest.approx(1.4, rel=0.02) and len(uri) * 3 / 4 < 20_100
    assert max(opened(jpeg_within(picture, 10**7, largest=256))[1].size) == 256


def test_of_photos_there_are_fewer_queries_whose_images_are_large():
    photo = np.asarray(Image.fromarray(NOISE[::20, ::20]).resize((500, 700), Image.Resampling.BICUBIC))
    count = queries_within([photo], 27)
    assert FEWEST < count < MOST
    assert max(opened(jpeg_within(Image.fromarray(photo), IMAGES // (27 * count), LARGEST))[1].size) >= LARGE
    assert queries_within([NOISE[:32, :32]] * 19 + [photo], 27) == MOST
    # Too many bytes for large images, for as many queries, and for more than one.
    assert [queries_within([NOISE], shown) for shown in (51, 2000, 10_000)] == [FEWEST, 4, 1]


def test_a_thousand_noisy_photos_stay_within_the_page():
    share = IMAGES // 1080
    assert 1080 * len(jpeg_within(Image.fromarray(NOISE), share)) < 4 / 3 * IMAGES + 1080 * 40


def test_pictures_keep_their_type_unless_they_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(page_images, "PICTURES", 60_000)
    Image.fromarray(NOISE[:8, :8]).save(tmp_path / "small_one.png")
    Image.fromarray(NOISE).save(tmp_path / "large.png")
    (tmp_path / "chart.svg").write_text("<svg/>")
    captions = {tmp_path / "small_one.png": "A < B", tmp_path / "large.png": "L", tmp_path / "chart.svg": "C"}
    made = picture_figures(captions)
    kinds = re.findall(r'src="data:([\w/+]+);', made)
    assert kinds == ["image/png", "image/jpeg", "image/svg+xml"] and len(made) < 80_000
    assert 'alt="small one"' in made and "<figcaption>A &lt; B</figcaption>" in made
    assert picture_figures({}) is None
