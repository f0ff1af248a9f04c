"""The service answers those who ask as they should."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running
from tfdml.serving.index.stores.store import Neighbor
from tfdml.serving.index.threshold import Threshold


@pytest.fixture(scope="module")
def searcher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    files = [folder / f"{number}.jpg" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(encoded(("JPEG", "PNG", "WEBP")[number]))
    (folder / "secret.txt").write_text("secret")
    return FakeSearcher([*files, folder / "secret.txt", folder / "gone.png"])


@pytest.fixture(scope="module")
def client(searcher):
    with running(searcher) as started:
        yield started


def test_search_by_upload_and_by_json(client):
    content = encoded()
    for found in (
        client.post("/search", files={"image": ("a.png", content)}, data={"k": "2"}),
        client.post("/search", files={"image": ("a b é.png", content)}, data={"k": "2"}),
        client.post("/search", json=in_json(content, k=2)),
    ):
        assert found.status_code == 200, found.text
        assert found.json() == {
            "neighbors": [
                {"id": 100, "name": "0.jpg", "label": "red", "similarity": 1.0},
                {"id": 101, "name": "1.jpg", "label": None, "similarity": 0.9},
            ]
        }
    assert len(client.post("/search", json=in_json(content)).json()["neighbors"]) == 5


def test_embed(client):
    content = encoded("JPEG")
    expected = {"embedding": [sum(content), len(content), 0, 1]}
    assert client.post("/embed", files={"image": content}).json() == expected
    assert client.post("/embed", json=in_json(content)).json() == expected


def test_images_of_the_index_by_id_only(client, searcher):
    for number, kind in enumerate(("jpeg", "png", "webp")):
        found = client.get(f"/images/{number + 100}")
        assert (found.status_code, found.headers["content-type"]) == (200, f"image/{kind}")
        assert found.content == searcher.files[number].read_bytes()
    assert_refused(client.get("/images/7"), 404, "does not contain an image with the id 7")
    assert_refused(client.get("/images/-1"), 404, "with the id -1")
    assert_refused(client.get(f"/images/{2**70}"), 404, "does not contain an image")
    assert_refused(client.get("/images/0.jpg"), 422, "id: ")
    assert_refused(client.get("/images/..%2f..%2fetc%2fpasswd"), 404, "Not Found")
    # The index names them, but they are no images, or not there.
    assert_refused(client.get("/images/103"), 404, "image 103 is no longer an image")
    assert_refused(client.get("/images/104"), 404, "image 104 can no longer be read")


def test_a_photo_that_browsers_may_not_show_is_sent_as_a_png(client, searcher):
    was = searcher.files[0].read_bytes()
    searcher.files[0].write_bytes(encoded("AVIF"))
    try:
        found = client.get("/images/100")
        assert (found.status_code, found.headers["content-type"], found.content[:4]) == (200, "image/png", b"\x89PNG")
        searcher.files[0].write_bytes(encoded("AVIF")[:-30])
        assert_refused(client.get("/images/100"), 404, "image 100 is no longer an image")
    finally:
        searcher.files[0].write_bytes(was)


def test_health_metrics_and_openapi(searcher):
    with running(searcher) as client:
        assert client.get("/health").json() == {"status": "ok", "token": False}
        client.post("/embed", json=in_json(encoded()))
        client.get("/images/7")
        client.get("/nothing")
        text = client.get("/metrics")
        assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        for line in (
            'tfdml_requests_total{path="/embed",status="200"} 1.0',
            'tfdml_requests_total{path="/images",status="404"} 1.0',
            'tfdml_requests_total{path="other",status="404"} 1.0',
            'tfdml_request_seconds_bucket{le="+Inf"} 4.0',
            "tfdml_request_seconds_count 4.0",
            "tfdml_images_total 1.0",
            "tfdml_batches_total 1.0",
            "tfdml_waiting 0.0",
        ):
            assert line in text.text.splitlines()
        described = client.get("/openapi.json").json()["paths"]
    assert described.keys() == {"/search", "/label", "/embed", "/images/{id}", "/health", "/metrics"}
    assert described["/search"]["post"]["requestBody"]["content"].keys() == {"multipart/form-data", "application/json"}


def test_the_page_runs_its_own_script_only(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"https?://|//\w+\.", page.text)
    assert client.get("/docs").status_code == 404


def test_a_filter_goes_to_the_index_without_paths():
    asked = []

    class Filtered(FakeSearcher):
        def search_vectors(self, vectors, k, where, hidden):
            if where is not None:
                asked.append((len(vectors), k, where, hidden))
            if where == "wrong":
                raise ValueError("The filter cannot be used")
            return super().search_vectors(vectors, k, where, hidden)

    with running(Filtered(["a.png", "b.png"])) as client:
        for found in (
            client.post("/search", files={"image": encoded()}, data={"k": "1", "where": "price < 2"}),
            client.post("/search", json=in_json(encoded(), k=1, where="price < 2")),
        ):
            assert found.status_code == 200 and list(found.json()) == ["neighbors", "matching", "exact"]
            assert (len(found.json()["neighbors"]), found.json()["matching"], found.json()["exact"]) == (1, 7, False)
        assert asked == [(1, 1, "price < 2", ("path",))] * 2
        assert_refused(client.post("/search", json=in_json(encoded(), where="wrong")), 400, "The filter cannot be used")
        assert_refused(client.post("/search", json=in_json(encoded(), where=3)), 400, "where must be a string")
        form = {"files": {"image": encoded(), "where": b"x"}}
        assert_refused(client.post("/search", **form), 400)
        assert_refused(client.post("/embed", json=in_json(encoded(), where="a")), 400, "Unknown field 'where'")
        assert list(client.post("/search", json=in_json(encoded(), where="")).json()) == ["neighbors"]


def test_a_box_is_a_part_of_the_image(searcher):
    pixels = np.random.default_rng(0).integers(0, 255, (6, 8, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    content, found = file.getvalue(), FakeSearcher(["a.png#xywh=1,2,30,40", "b.png#xywh=percent:0,0,50,100", "c.png"])
    with running(found) as client:
        for path in ("/search", "/label", "/embed"):
            for sent in (
                {"json": in_json(content, box=[2, 1, 7, 5])},
                {"json": in_json(content, box=[2 / 8, 1 / 6, 7 / 8, 5 / 6])},
                {"files": {"image": content}, "data": {"box": "2,1,7,5"}},
            ):
                answer = client.post(path, **sent)
                assert answer.status_code == 200, answer.text
                part = np.asarray(Image.open(io.BytesIO(found.read_files[-1])))
                np.testing.assert_array_equal(part, pixels[1:5, 2:7])
        assert len(found.read_files) == 9
        neighbors = client.post("/search", json=in_json(content)).json()["neighbors"]
        assert [(each["name"], each.get("box")) for each in neighbors] == [
            ("a.png", [1, 2, 31, 42]),
            ("b.png", [0, 0, 0.5, 1]),
            ("c.png", None),
        ]
        for box, told in (
            ([2, 1, 9.9, 9], "The box 2, 1, 9.9, 9 is outside the image, which has 8 x 6 pixels."),
            ([5, 1, 5, 3], "The box 5, 1, 5, 3 has no area. Expected x1 < x2 and y1 < y2"),
            ([0.5, 0.1, 1.2, 0.9], "has fractions above 1"),
            ([1, 2, 3], "box must have four numbers, x1,y1,x2,y2. Received: 3 numbers."),
            ([0] * 5000, "Received: 5000 numbers."),
            ([], "Received: 0 numbers."),
            ("a,b,c,d", "box must have four numbers, x1,y1,x2,y2. Received: ['a', 'b', 'c', 'd']."),
            ({"x": 1}, "box must have four numbers"),
            (True, "box must have four numbers"),
            ([1e999, 0, 1, 1], "must have finite numbers"),
        ):
            body = json.dumps(in_json(content, box=box))
            answer = client.post("/search", content=body, headers={"content-type": "application/json"})
            assert_refused(answer, 400, told)
        assert_refused(client.post("/search", json=in_json(content[:-40], box=[0, 0, 1, 1])), 400, "cannot be read")
        form = {"image": content, "box": b"1,2,3,4"}
        assert_refused(client.post("/search", files=form), 400)


def test_hits_are_accepted_and_images_labeled_from_a_threshold_on():
    with running(FakeSearcher(["a.png", "b.png"]), threshold=lambda searcher: Threshold(0.95)) as client:
        found = client.post("/search", json=in_json(encoded())).json()
        assert [each["accepted"] for each in found["neighbors"]] == [True, False] and found["threshold"] == 0.95
        expected = {"label": "red", "accepted": True, "similarity": 1.0, "threshold": 0.95}
        assert client.post("/label", json=in_json(encoded(), k=2)).json() == expected
        assert client.post("/label", files={"image": encoded()}).json() == expected
        assert_refused(client.post("/label", json=in_json(encoded(), l=2)), 400, "Unknown field 'l'")
        assert 'path="/label",status="200"' in client.get("/metrics").text


@pytest.mark.parametrize(
    "files, threshold, expected",
    [
        ([], 0.5, {"label": "unknown", "accepted": False, "similarity": None, "threshold": 0.5}),
        (["a.png"], 1.5, {"label": "unknown", "accepted": False, "similarity": 1.0, "threshold": 1.5}),
        (["a.png"], None, {"label": "red", "accepted": None, "similarity": 1.0}),
        ([], None, {"label": "unknown", "accepted": None, "similarity": None}),
    ],
)
def test_labels_without_a_hit_or_without_a_threshold(files, threshold, expected):
    options = {} if threshold is None else {"threshold": lambda searcher: Threshold(threshold)}
    with running(FakeSearcher(files), **options) as client:
        assert client.post("/label", json=in_json(encoded())).json() == expected


def test_metrics_have_the_nearest_similarities_and_the_unknown_queries():
    """A query with a filter does not count, because the filter may hide its nearest image."""

    from prometheus_client import generate_latest

    from tfdml.serving.http.queries import Answer
    from tfdml.serving.http.server import Metrics

    def answer(similarity, **more):
        found = [Neighbor(0, "a.jpg", None, similarity), Neighbor(1, "b.jpg", None, similarity - 0.5)]
        return Answer(np.zeros(2), found, threshold=Threshold(0.5), **more)

    metrics = Metrics()
    for each in (answer(0.97), answer(0.62), answer(0.3), answer(0.1, matching=2), Answer(np.zeros(2))):
        metrics.observe(each)
    lines = generate_latest(metrics.registry).decode().splitlines()
    for bound, count in {"0.2": 0, "0.3": 1, "0.6": 1, "0.7": 2, "0.95": 2, "0.98": 3, "+Inf": 3}.items():
        assert f'tfdml_nearest_similarity_bucket{{le="{bound}"}} {count}.0' in lines
    assert "tfdml_nearest_similarity_count 3.0" in lines and "tfdml_unknown_queries_total 1.0" in lines
    assert 'le="-0.25"' in generate_latest(Metrics("euclidean").registry).decode()
