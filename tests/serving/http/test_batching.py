"""Requests that come at once are answered together, and those that are too many are told to come again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.commands import until
from tests.serving.http.fake_service import FakeSearcher, assert_refused, encoded, in_json, running
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
        assert_refused(refused, 503, "3 requests wait already")
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
