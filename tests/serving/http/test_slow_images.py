"""An image that takes long to decode is nobody else's business, and the service says when it is stuck."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.commands import until
from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running
from tfdml.serving.http.app import DECODERS
from tfdml.serving.http.queries import Batcher
from tfdml.serving.http.server import Limits

# Of which nobody knows how long they take.
OTHER = encoded("WEBP")
SLOW = OTHER + b"slow"


def test_others_are_answered_while_an_image_is_decoded():
    searcher = FakeSearcher()
    with running(searcher) as client, ThreadPoolExecutor(1) as threads:
        searcher.decodes.clear()
        slow = threads.submit(client.post, "/embed", json=in_json(SLOW))
        until(lambda: searcher.read_files == [SLOW])
        for content in (OTHER, encoded(), encoded("JPEG")):
            assert client.post("/embed", json=in_json(content)).status_code == 200
        # The others are small and decoded with their batch.
        assert searcher.read_files == [SLOW, OTHER]
        assert client.get("/health").json()["status"] == "ok" and not slow.done()
        searcher.decodes.set()
        assert slow.result().status_code == 200
    assert searcher.batches == [1] * 4


def test_an_image_is_given_up_and_the_service_says_that_it_is_stuck():
    searcher, too_late = FakeSearcher(), OTHER + b"late"
    with running(searcher, Limits(decoding=0.05)) as client:
        searcher.decodes.clear()
        # On a busy machine an image may be given up before a thread has begun with it.
        while len(searcher.read_files) < DECODERS:
            answer = client.post("/embed", json=in_json(SLOW))
            assert_refused(answer, 503, "The image was not decoded within 0.05 seconds")
        until(lambda: client.get("/health").status_code == 503)
        told = client.get("/health").json()
        assert told == {"status": "stuck", "token": False, "reason": "Images are not decoded."}
        # It waits for a thread, and is not decoded when nobody waits for it any more.
        assert_refused(client.post("/embed", json=in_json(too_late)), 503, "not decoded within")
        searcher.decodes.set()
        until(lambda: client.get("/health").json() == {"status": "ok", "token": False})
        until(lambda: client.post("/embed", json=in_json(OTHER)).status_code == 200)
    assert {*searcher.read_files} == {SLOW, OTHER}


def test_health_tells_when_nothing_is_embedded():
    searcher = FakeSearcher()
    with running(searcher, Limits(seconds=0.05)) as client, ThreadPoolExecutor(1) as threads:
        searcher.go_on.clear()
        slow = threads.submit(client.post, "/embed", json=in_json(encoded()))
        until(lambda: client.get("/health").status_code == 503)
        assert client.get("/health").json()["reason"] == "Images are not embedded."
        searcher.go_on.set()
        assert slow.result().status_code == 200


def test_the_end_does_not_wait_for_threads_that_are_stuck():
    going_on, begun = threading.Event(), threading.Event()

    def answer(questions):
        begun.set()
        assert going_on.wait(60)
        return questions

    batcher = Batcher(answer, 1, threads=2)
    batcher.start()
    futures = [batcher.submit(number) for number in range(3)]
    assert begun.wait(60)
    batcher.close(0.05)
    assert not futures[0].done()
    going_on.set()
    # What had been asked before is answered all the same, by each of the threads to its end.
    batcher.close()
    assert [future.result(0) for future in futures] == [0, 1, 2]


def test_a_thread_is_stuck_only_if_all_are_and_for_long():
    going_on = threading.Event()
    batcher = Batcher(lambda questions: questions if going_on.wait(60) else questions, 1, threads=2)
    batcher.start()
    batcher.submit(1)
    time.sleep(0.02)
    assert not batcher.is_stuck(0)
    batcher.submit(2)
    until(lambda: batcher.is_stuck(0.01))
    assert not batcher.is_stuck(60)
    going_on.set()
    batcher.close()
    assert not batcher.is_stuck(0)
