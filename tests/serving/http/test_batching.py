"""Requests that come at once are answered together, too many are told to come again, and slow images hold up nobody."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.commands import until
from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running
from tfdml.serving.http.app import DECODERS
from tfdml.serving.http.queries import Batcher, Query, answer
from tfdml.serving.http.server import Limits


def waiting(client):
    return float(client.get("/metrics").text.split("\ntfdml_waiting ")[1].split()[0])


def test_what_waits_is_embedded_together(monkeypatch):
    searcher, submitted, submit = FakeSearcher(), [], Batcher.submit
    monkeypatch.setattr(Batcher, "submit", lambda *given: (submit(*given), submitted.append(given))[0])
    with running(searcher, batch_size=6) as client, ThreadPoolExecutor(9) as threads:
        searcher.go_on.clear()
        contents = [encoded(color=(number, 0, 0)) for number in range(9)]
        first = threads.submit(client.post, "/embed", json=in_json(contents[0]))
        until(lambda: searcher.batches == [1])
        others = [threads.submit(client.post, "/embed", json=in_json(content)) for content in contents[1:]]
        # The metrics count a request once its body has arrived, which is before it is submitted.
        until(lambda: len(submitted) == 9)
        searcher.go_on.set()
        found = [future.result().json()["embedding"] for future in (first, *others)]
        assert found == [[sum(content), len(content), 0, 1] for content in contents]
    assert searcher.batches == [1, 6, 2]


def test_too_many_are_told_to_come_again():
    searcher = FakeSearcher()
    with running(searcher, Limits(waiting=3)) as client, ThreadPoolExecutor(3) as threads:
        searcher.go_on.clear()
        waited = [threads.submit(client.post, "/embed", json=in_json(encoded())) for _ in range(3)]
        until(lambda: waiting(client) == 3)
        refused = client.post("/embed", json=in_json(encoded()))
        assert_refused(refused, 503, "3 requests are waiting already")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200
        searcher.go_on.set()
        assert [future.result().status_code for future in waited] == [200] * 3
        assert client.post("/embed", json=in_json(encoded())).status_code == 200


def test_what_waits_is_answered_when_the_service_stops():
    searcher = FakeSearcher()
    batcher = Batcher(lambda queries: answer(searcher, queries), 2)
    searcher.go_on.clear()
    futures = [batcher.submit(Query(b"image")) for _ in range(5)]
    batcher.start()
    until(lambda: searcher.batches)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    searcher.go_on.set()
    closing.join(60)
    assert all(future.done() for future in futures) and searcher.batches == [2, 2, 1]


def test_a_batch_has_no_more_than_its_size_and_one_that_left_is_left_out():
    batches = []
    batcher = Batcher(lambda questions: batches.append(questions) or questions, 3)
    futures = [batcher.submit(number) for number in range(7)]
    assert futures[1].cancel()
    batcher.start()
    batcher.close()
    assert batches == [[0, 2], [3, 4, 5], [6]] and futures[6].result() == 6


def test_an_error_is_that_of_its_batch_alone():
    def fails(questions):
        if 0 in questions:
            raise RuntimeError("broken")
        return questions

    batcher = Batcher(fails, 2)
    futures = [batcher.submit(number) for number in range(4)]
    batcher.start()
    batcher.close()
    for future in futures[:2]:
        with pytest.raises(RuntimeError, match="broken"):
            future.result()
    assert [future.result() for future in futures[2:]] == [2, 3]


def test_each_query_gets_its_own_number_of_neighbors(tmp_path):
    found = answer(
        FakeSearcher(["a.png", "b.png", "c.png"]), [Query(b"1", 2), Query(b"damaged", 2), Query(b"3"), Query(b"4", 3)]
    )
    assert found[1] is None
    assert [len(each.neighbors) for each in found if each] == [2, 0, 3]


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
            answered = client.post("/embed", json=in_json(SLOW))
            assert_refused(answered, 503, "The image was not decoded within 0.05 seconds")
        until(lambda: client.get("/health").status_code == 503)
        told = client.get("/health").json()
        assert told == {"status": "stuck", "token": False, "reason": "Decoding of images is stuck."}
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
        assert client.get("/health").json()["reason"] == "Embedding of images is stuck."
        searcher.go_on.set()
        assert slow.result().status_code == 200


def test_the_end_does_not_wait_for_threads_that_are_stuck():
    going_on, begun = threading.Event(), threading.Event()

    def answered(questions):
        begun.set()
        assert going_on.wait(60)
        return questions

    batcher = Batcher(answered, 1, threads=2)
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
