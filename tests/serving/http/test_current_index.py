"""A running service follows the changes of its index on the disk."""

import functools
import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

import tfdml
from pipelines.checks import is_quick
from pipelines.preprocessing import preprocessing_of
from pipelines.preprocessor import Preprocessor
from tests.commands import until
from tests.pipelines.image_files import with_scans
from tests.run_helpers import made_once
from tests.serving.http.fake_service import assert_refused, in_json, running
from tests.serving.index.test_indexing import write_pictures
from tests.serving_fixtures import (
    exported,
    exported_tolerant,
    exported_towers,
    models_load_once,  # noqa: F401
    picture,
)
from tfdml.serving import ExportedModel, Searcher, export
from tfdml.serving.http import queries
from tfdml.serving.http.queries import UNUSABLE, CurrentIndex
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build, folder, searcher
from tfdml.serving.index.build import delete_images, index_images, upgrade_index


@functools.cache
def other_model():
    """Folder of a model of other images, of 32 pixels, and with other dimensions."""
    keras.utils.set_random_seed(1)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=12)
    model(np.zeros((1, 32, 32, 3), np.float32))
    preprocessor = Preprocessor("resize_short|center_crop", image_size=32, **preprocessing_of(model))
    return made_once("other-exported", lambda path: export(model, preprocessor, path))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"), range(6))


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "index"
    index_images(out, ImageList.of(photos), model=exported())
    return out


@pytest.fixture
def index(made, tmp_path):
    shutil.copytree(made, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def current(index):
    found = CurrentIndex(Searcher(index))
    found.check()
    # Loaded before the first request, as by the command.
    assert found.searcher.model and found.problem is None
    return found


def names(current, number):
    return [each.path.split("/")[-1] for each in current.searcher.search([picture(number)], k=9)[0]]


def test_a_service_neither_finds_nor_sends_what_was_deleted(index, photos, monkeypatch):
    monkeypatch.setattr(queries, "INTERVAL", 0.01)
    with running(Searcher(index)) as client:
        found = client.post("/search", json=in_json(picture(3))).json()["neighbors"]
        first = found[0]
        assert first["name"] == "03.png" and len(found) == 6
        assert client.get(f"/images/{first['id']}").content == picture(3)
        delete_images(index, [photos / "odd" / "03.png"])
        until(lambda: len(client.post("/search", json=in_json(picture(3))).json()["neighbors"]) == 5)
        left = client.post("/search", json=in_json(picture(3))).json()["neighbors"]
        assert [each["id"] for each in left] and first["id"] not in [each["id"] for each in left]
        assert_refused(
            client.get(f"/images/{first['id']}"), 404, f"The index does not contain an image with the id {first['id']}"
        )
        assert client.get("/health").json() == {"status": "ok", "token": False}


def test_the_model_is_not_loaded_again_and_an_unchanged_index_is_not_read(current, index, photos, monkeypatch):
    before, model = current.searcher, current.searcher.model
    monkeypatch.setattr(folder.IndexFolder, "manifest", lambda self: pytest.fail("read"))
    current.check()
    assert current.searcher is before
    monkeypatch.undo()
    # Written again as it was.
    (index / "manifest.json").write_bytes((index / "manifest.json").read_bytes())
    current.check()
    assert current.searcher is before
    delete_images(index, [photos / "odd" / "03.png"])
    current.check()
    assert len(current.searcher) == 5 and current.searcher.model is model and len(before) == 6
    # Whoever asked before the change still gets the whole answer of the old index.
    assert before.search([picture(3)], k=1)[0][0].path.endswith("03.png")


@pytest.mark.parametrize("damage", ["manifest", "faiss", "missing table", "missing folder"])
def test_a_damaged_index_leaves_the_old_one(current, index, photos, damage, caplog):
    whole = index.with_name("whole")
    shutil.copytree(index, whole)
    delete_images(whole, [photos / "odd" / "03.png"])
    aside = index.with_name("aside")
    index.rename(aside)
    if damage != "missing folder":
        shutil.copytree(whole, index)
        {
            "manifest": lambda: (index / "manifest.json").write_text("{"),
            "faiss": lambda: (index / "index-1.faiss").write_bytes(b"damaged"),
            "missing table": lambda: (index / "images-1.parquet").unlink(),
        }[damage]()
    with caplog.at_level(logging.WARNING):
        current.check()
        current.check()
    assert current.problem == UNUSABLE and names(current, 3)[0] == "03.png" and len(current.searcher) == 6
    (told,) = [each.getMessage() for each in caplog.records]
    assert "continues with the index that it has" in told and str(index) in told
    # Mended, without a change of the manifest where that was whole.
    shutil.copytree(whole, index, dirs_exist_ok=True)
    current.check()
    assert current.problem is None and len(current.searcher) == 5


def test_an_index_of_another_model_is_refused(current, index, photos, caplog):
    other = index.with_name("other")
    index_images(other, ImageList.of(photos / "odd"), model=exported_tolerant())
    shutil.rmtree(index)
    other.rename(index)
    with caplog.at_level(logging.WARNING):
        current.check()
    assert current.problem == UNUSABLE and len(current.searcher) == 6
    assert "was replaced by an index of another model" in caplog.text


def test_another_model_embeds_queries_and_does_not_follow_an_upgrade(index, caplog):
    student = Searcher(index, query_model=exported_towers())
    expected = [each.path.split("/")[-1] for each in student.search([picture(3)], k=9)[0]]
    with running(student) as client:
        found = client.post("/search", json=in_json(picture(3))).json()["neighbors"]
        assert [each["name"] for each in found] == expected
    current = CurrentIndex(student)
    upgrade_index(index, exported_tolerant())
    with caplog.at_level(logging.WARNING):
        current.check()
    assert current.problem == UNUSABLE and names(current, 3) == expected
    assert "was replaced by an index of another model" in caplog.text


@pytest.mark.nightly
def test_an_upgraded_index_takes_the_place_of_the_old_one_and_no_request_is_dropped(index, photos, monkeypatch):
    monkeypatch.setattr(queries, "INTERVAL", 0.01)
    for module in (searcher, build):
        monkeypatch.setattr(module, "ExportedModel", ExportedModel)
    # One that takes long to decode is decoded before it is embedded, perhaps by the model before.
    slow = with_scans(30, 40)
    assert not is_quick(slow) and is_quick(picture(3))
    with running(Searcher(index)) as client, ThreadPoolExecutor(2) as others:
        ended, models = threading.Event(), set()

        def ask(content):
            while not ended.is_set():
                answer = client.post("/search", json=in_json(content))
                assert answer.status_code == 200 and len(answer.json()["neighbors"]) == 6, answer.text
                found = client.post("/embed", json=in_json(content)).json()["embedding"]
                models.add((content == slow, tuple(np.round(found, 4))))

        asking = [others.submit(ask, content) for content in (picture(3), slow)]
        try:
            until(lambda: len(models) == 2)
            assert upgrade_index(index, other_model()) == 6
            until(lambda: len(models) == 4)
        finally:
            ended.set()
        for each in asking:
            each.result()
        assert client.get("/health").json() == {"status": "ok", "token": False}


def test_a_half_written_index_is_not_taken(current, index, photos, monkeypatch):
    """Whenever an index is looked at while it is written, the searcher is of the old index or of the new one."""
    seen, real = [], folder.write_manifest

    def looking(*arguments):
        for step in (lambda: None, lambda: real(*arguments)):
            step()
            current.check()
            seen.append((len(current.searcher), current.problem))

    monkeypatch.setattr(folder, "write_manifest", looking)
    delete_images(index, [photos / "odd" / "03.png"])
    # Notes are written beside the manifest before and after it.
    assert (6, None) in seen and seen[-1] == (5, None) and seen == sorted(seen, reverse=True) and len(set(seen)) == 2


def test_an_index_that_changes_while_it_is_read_is_read_again(current, index, photos, monkeypatch):
    delete_images(index, [photos / "odd" / "03.png"])
    real = folder.IndexFolder.read_index

    def overtaken(self, manifest, mapped):
        monkeypatch.undo()
        delete_images(index, [photos / "odd" / "05.png"])
        return real(self, manifest, mapped)

    monkeypatch.setattr(folder.IndexFolder, "read_index", overtaken)
    current.check()
    assert (len(current.searcher), current.problem) == (4, None)


def test_an_error_that_passes_is_tried_again(current, index, photos, monkeypatch, caplog):
    delete_images(index, [photos / "odd" / "03.png"])

    def failing(self):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Searcher, "reopened", failing)
        current.check()
        current.check()
    assert (len(current.searcher), current.problem) == (6, UNUSABLE)
    assert caplog.text.count("Too many open files. The service continues") == 1
    current.check()
    assert (len(current.searcher), current.problem) == (5, None)


def test_health_says_that_the_index_is_old(index, monkeypatch):
    monkeypatch.setattr(queries, "INTERVAL", 0.01)
    with running(Searcher(index)) as client:
        (index / "manifest.json").unlink()
        until(lambda: client.get("/health").json()["status"] == "old index")
        told = client.get("/health")
        assert told.status_code == 200 and told.json()["reason"] == UNUSABLE
        assert client.post("/search", json=in_json(picture(3))).json()["neighbors"][0]["name"] == "03.png"
