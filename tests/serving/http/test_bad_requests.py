"""Requests that cannot be answered are told why in one sentence, and the service stays up."""

import asyncio
import base64
import json
import struct
import zlib

import pytest

from tests.pipelines.image_files import with_scans
from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running
from tfdml.serving.http.server import BodyLimits, Limits, Metrics

LIMITS = Limits(image_bytes=100_000, pixels=10_000, seconds=5)
FORM = {"content-type": "multipart/form-data; boundary=x"}


@pytest.fixture(scope="module")
def client():
    with running(FakeSearcher(), LIMITS) as started:
        yield started
        # Whatever came before.
        assert started.post("/search", json=in_json(encoded())).status_code == 200


def form():
    """The body of a form with an image and a number of neighbors."""
    fields = (b'"image"; filename="a.png"', encoded()), (b'"k"', b"1")
    parts = (b"--x\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n" % field for field in fields)
    return b"".join(parts) + b"--x--\r\n"


def bomb():
    """A PNG of some hundred bytes that claims a square of 60,000 pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10_000)))


@pytest.mark.parametrize(
    "content, status, words",
    [
        (b"", 400, "The image is empty"),
        (b"text", 400, "is not a readable image"),
        (encoded("GIF"), 400, "is a GIF file, which tfdml does not read"),
        (encoded("JPEG")[:10], 400, "is not a readable image"),
        (encoded() + b"damaged", 400, "cannot be read. Expected a complete JPEG, PNG, WebP or AVIF"),
        (encoded(size=(101, 100)), 400, "has 101 x 100 pixels, more than 10,000"),
        (bomb(), 400, "pixels"),
        (encoded() + bytes(100_000), 413, "bytes. At most 100,000 are allowed"),
        (encoded() + b"broken", 500, "See its log for the reason"),
    ],
)
def test_bad_images(client, content, status, words):
    for path in ("/search", "/embed"):
        for sent in ({"files": {"image": ("a.png", content)}}, {"json": in_json(content)}):
            answer = client.post(path, **sent)
            assert_refused(answer, status, words)
            assert "secret" not in answer.text


def test_an_image_that_takes_long_to_decode():
    searcher = FakeSearcher()
    with running(searcher) as client:
        answer = client.post("/search", files={"image": with_scans(110, 3200)})
    assert_refused(answer, 400, "The image has 110 scans, more than 97 for its size")
    assert not searcher.read_files


@pytest.mark.parametrize("k", [0, -1, 1001, "5", 2.0, True, [], "", 10**30, float("nan")])
def test_bad_numbers_of_neighbors(client, k):
    body = json.dumps(in_json(encoded(), k=k))
    headers = {"content-type": "application/json"}
    assert_refused(client.post("/search", content=body, headers=headers), 400, "k must be an integer")
    if k not in ("5", "") and not isinstance(k, list | bool):
        sent = {"files": {"image": encoded()}, "data": {"k": str(k)}}
        assert_refused(client.post("/search", **sent), 400, "k must be an integer")


@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "The body is not valid JSON"),
        (b"{", "The body is not valid JSON"),
        (b"\xff\xfe", "The body is not valid JSON"),
        (b"[" * 60_000, "The body is not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "The field b64 is missing"),
        (b'{"b64": 1}', "b64 must be a string"),
        (b'{"b64": "***"}', "b64 is not valid base64"),
        ('{"b64": "é"}'.encode(), "b64 is not valid base64"),
        (b'{"b64": "", "path": "/etc/passwd"}', "Unknown field 'path'"),
        (b'{"b64": "", "' + b"x" * 5000 + b'": 1}', "Unknown field"),
    ],
)
def test_bad_json(client, body, words):
    for path in ("/search", "/embed"):
        answer = client.post(path, content=body, headers={"content-type": "application/json; charset=utf-8"})
        assert_refused(answer, 400, words)
        assert len(answer.text) < 300


def test_bad_forms(client):
    content = encoded()
    for sent, words in [
        ({"files": {"photo": content}}, "Unknown field 'photo'"),
        ({"files": {"k": content}}, "The field image is missing"),
        ({"data": {"image": "text"}, "files": {"k": b"5"}}, "The field image contains text"),
        ({"files": {"image": ("../../etc/passwd", content)}}, "contains a path"),
        ({"files": {"image": ("a\\b.png", content)}}, "contains a path"),
        ({"files": [("image", content)] * 2}, "Too many files"),
        ({"files": [("image", b"x")] * 1000}, "Too many files"),
        ({"files": {"image": content}, "data": {f"f{number}": "x" for number in range(1000)}}, "Too many fields"),
    ]:
        assert_refused(client.post("/search", **sent), 400, words)
    for body in (b"", b"--x", b"--x\r\n\r\n", b"text", b"--x\r\nA: b\r\n\r\nc\r\n--x--\r\n", b"--x--\r\n", b"\0" * 500):
        assert_refused(client.post("/search", content=body, headers=FORM), 400)
    assert_refused(client.post("/search", content=b"", headers={"content-type": "multipart/form-data"}), 400)
    assert_refused(client.post("/embed", files={"image": content}, data={"k": "5"}), 400, "Unknown field 'k'")


def test_other_content_types_methods_and_paths(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "image/png", "\xff", ""):
        headers = {"content-type": kind.encode("latin-1")}
        assert_refused(client.post("/search", content=encoded(), headers=headers), 415, "The content type must be")
    assert_refused(client.get("/search"), 405, "Method Not Allowed")
    assert_refused(client.post("/metrics"), 405)
    assert_refused(client.post("/../../etc/passwd", content=b""), 404)


@pytest.mark.parametrize("charset", ["punycode", "idna", "PunyCode", "utf-7", "latin-1", "x" * 5000, ""])
def test_no_decoder_is_the_clients_choice(client, charset):
    # It would decode each field on the loop that answers everybody.
    answer = client.post(
        "/search", content=form(), headers={"content-type": f"{FORM['content-type']}; charset={charset}"}
    )
    assert_refused(answer, 415, "The charset must be utf-8. Received: " + charset[:100])
    assert len(answer.text) < 300


@pytest.mark.parametrize("charset", ["; charset=utf-8", "; charset=UTF-8", '; charset="utf-8"', "; charset=utf8", ""])
def test_utf_8_is_read(client, charset):
    answer = client.post("/search", content=form(), headers={"content-type": FORM["content-type"] + charset})
    assert answer.status_code == 200, answer.text


def test_a_huge_body_is_not_kept(client):
    body = b"x" * (LIMITS.body_bytes + 1)
    assert_refused(client.post("/search", content=body), 413, "An image may have at most 100,000")
    # Of an unknown length, and one that only its header claims.
    assert_refused(client.post("/search", content=(b"x" * 50_000 for _ in range(100))), 413)
    assert_refused(client.post("/search", content=b"x", headers={"content-length": str(10**12)}), 413)


async def refused_by_limits(receive, scope=None):
    """Returns the answers of the middleware, which lets no request through."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/search", "headers": [], **(scope or {})}
    metrics = Metrics()
    await BodyLimits(None, Limits(seconds=0.05), metrics)(scope, receive, send)
    assert metrics.registry.get_sample_value("tfdml_waiting") == 0
    return sent


def test_a_slow_body():
    async def slow():
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    start, body = asyncio.run(refused_by_limits(slow))
    assert start["status"] == 408 and b"did not arrive within 0.05 seconds" in body["body"]


async def statuses(limits, bodies):
    """Returns the statuses that clients get which send bodies of these lengths and then stop, and of one after them.

    Also the one of a client that asks when the others have gone.
    """
    stopped, found = asyncio.Event(), {}

    async def answer(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    middleware = BodyLimits(answer, limits, Metrics())

    async def ask(number, length, ends):
        sent = []

        async def receive():
            if sent:
                await stopped.wait()
                return {"type": "http.disconnect"}
            sent.append(length)
            return {"type": "http.request", "body": bytes(length), "more_body": not ends}

        async def send(message):
            found.setdefault(number, message.get("status"))

        await middleware({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)

    slow = [asyncio.create_task(ask(number, length, False)) for number, length in enumerate(bodies)]
    await asyncio.sleep(0)
    await ask("next", 1000, True)
    stopped.set()
    await asyncio.gather(*slow)
    await ask("last", 1000, True)
    return [found.get(each) for each in (*range(len(bodies)), "next", "last")]


def test_slow_bodies_lock_nobody_out():
    limits = Limits(image_bytes=100_000, waiting=2, seconds=60)
    assert asyncio.run(statuses(limits, [10] * 20)) == [None] * 20 + [200, 200]


def test_bodies_that_have_not_arrived_hold_no_more_memory_than_those_that_wait():
    limits = Limits(image_bytes=100_000, waiting=2, seconds=60)
    most = limits.body_bytes
    assert asyncio.run(statuses(limits, [most, most])) == [None, None, 503, 200]
    assert asyncio.run(statuses(limits, [most, most, 1])) == [None, None, 503, 503, 200]
    assert asyncio.run(statuses(limits, [most, most - 1000])) == [None, None, 200, 200]


def test_a_client_that_goes():
    async def gone():
        return {"type": "http.disconnect"}

    assert asyncio.run(refused_by_limits(gone)) == []


def test_base64_is_as_long_as_the_limit_allows(client):
    content = encoded() + bytes(LIMITS.image_bytes - len(encoded()))
    assert len(base64.b64encode(content)) < LIMITS.body_bytes
    assert client.post("/embed", json=in_json(content)).status_code == 200
