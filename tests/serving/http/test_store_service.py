"""A service before an engine: it has no rows itself, says when the engine is gone, and goes on when it is back."""

import logging

import psycopg
import pytest

from tests.serving.http.fake_service import assert_refused, in_json, running
from tests.serving.http.test_batching import until
from tests.serving.index.store_places import place, postgresql, server
from tests.serving.index.test_indexing import COUNT, write_pictures
from tests.serving_fixtures import exported, loaded, models_load_once, picture  # noqa: F401
from tfdml.serving.exported_model import model_hash
from tfdml.serving.http import queries
from tfdml.serving.http.queries import GONE, CurrentIndex
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.searcher import searcher_of
from tfdml.serving.index.stores.engine import load_images
from tfdml.serving.index.stores.store import open_store


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"))


def filled(address, photos):
    with open_store(address, model=model_hash(exported())) as store:
        load_images(store, ImageList.of(photos), loaded(model_hash(exported())))
    return address


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql", "qdrant"])
def test_what_it_answers(engine, photos, tmp_path):
    searcher = searcher_of(filled(place(engine, tmp_path), photos), exported())
    with running(searcher) as client:
        found = client.post("/search", json=in_json(picture(3), k=2)).json()
        first = found["neighbors"][0]
        assert (first["name"], first["label"], len(found["neighbors"])) == ("03.png", "odd", 2)
        assert client.get(f"/images/{first['id']}").content == picture(3)
        assert_refused(client.get("/images/999"), 404)
        found = client.post("/search", json=in_json(picture(3), k=9, where="label = 'even'")).json()
        assert (found["matching"], found["exact"], len(found["neighbors"])) == (COUNT // 2 + 1, True, 7)
        assert_refused(client.post("/search", json=in_json(picture(3), where="path = 'a'")), 400, "no column 'path'")
        assert client.get("/health").json() == {"status": "ok", "token": False}
        # What is deleted is not found any more.
        searcher.store.delete([first["id"]])
        assert client.post("/search", json=in_json(picture(3))).json()["neighbors"][0]["name"] != "03.png"
    searcher.store.close()


@pytest.mark.slow
def test_an_engine_that_is_gone_answers_503_and_comes_back_by_itself(photos, monkeypatch, caplog):
    monkeypatch.setattr(queries, "INTERVAL", 0.01)
    own = server("service")
    address = filled(postgresql(own), photos)
    with running(searcher_of(address, exported())) as client, caplog.at_level(logging.WARNING):
        assert client.get("/health").status_code == 200
        assert client.post("/search", json=in_json(picture(3))).status_code == 200
        own.stop()
        refused = client.post("/search", json=in_json(picture(3)))
        assert_refused(refused, 503, "The index cannot be reached. Try again in a second.")
        assert refused.headers["retry-after"] == "1" and "postgres" not in refused.text
        assert_refused(client.get("/images/1"), 503)
        until(lambda: client.get("/health").status_code == 503)
        assert client.get("/health").json() == {"status": "no index", "token": False, "reason": GONE}
        # What needs no index goes on.
        assert client.post("/embed", json=in_json(picture(3))).status_code == 200
        own.ensure_postgres_running()
        until(lambda: client.get("/health").status_code == 200)
        assert client.post("/search", json=in_json(picture(3))).json()["neighbors"][0]["name"] == "03.png"
    assert "does not answer" in caplog.text


def test_a_table_of_another_model_is_not_answered_from(photos, monkeypatch):
    monkeypatch.setattr(queries, "INTERVAL", 0.01)
    address = filled(postgresql(), photos)
    with running(searcher_of(address, exported())) as client:
        until(lambda: client.get("/health").status_code == 200)
        with psycopg.connect(server().get_uri(), autocommit=True) as connection:
            connection.execute("UPDATE tfdml_indexes SET model = 'other' WHERE name = %s", [address.rpartition("=")[2]])
        for more in ({}, {"where": "label = 'odd'"}):
            assert_refused(client.post("/search", json=in_json(picture(3), **more)), 503, "The index cannot be reached")
        until(lambda: client.get("/health").json()["status"] == "no index")


class LostWhileRead:
    """A searcher of a table that another model's takes the place of while it is opened again."""

    looks = 0

    def state(self):
        self.looks += 1
        if self.looks > 1:
            raise ValueError("The index is of another model.")
        return "first"

    def reopened(self):
        raise ValueError("The index is of another model.")


def test_a_table_that_is_lost_while_it_is_read_is_told_and_followed_further(caplog):
    index = CurrentIndex(LostWhileRead())
    index.check()
    assert not index.is_gone and not caplog.messages
    index.check()
    assert index.is_gone and index.problem == GONE and len(caplog.messages) == 1
