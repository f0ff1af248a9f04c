"""`tfdml.Index`: what it finds, for every kind of model; files of the commands and of Python are the same."""

import re
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import tfdml
from tests.serving.index.test_indexing import COUNT, embeddings_of
from tests.serving.index.test_stores import ids_of, nearest
from tests.serving_fixtures import SIZE, exported, picture, two_learners
from tfdml.files.shards import EmbeddingShards
from tfdml.run.loading import ImageEmbedder
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import folder as folder_module
from tfdml.serving.index import searcher as searcher_module
from tfdml.serving.index.build import compact_index, delete_images, index_images
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.stores.folder_store import FolderStore

DIM = 8


@pytest.fixture(scope="module")
def vectors():
    found = np.random.default_rng(0).normal(size=(60, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def index(vectors):
    """Rows 0 to 59: the label `even` or `odd`, and the price is the row."""
    with tfdml.Index() as made:
        labels = ["odd" if row % 2 else "even" for row in range(60)]
        assert made.add(vectors=vectors, labels=labels, attributes={"price": np.arange(60)}).tolist() == list(range(60))
        yield made


def test_vectors_of_any_length_are_compared(index, vectors):
    for factor in (7, 1e-30, 1e30):
        found = ids_of(index.search(vectors=np.float32(factor) * vectors[:9], k=4))
        assert found == nearest(vectors, vectors[:9], range(60), 4)


def test_later_images_have_other_attributes(index, vectors):
    """Without a price, and with one that is no integer."""
    index.add(vectors=vectors[:1], paths=["new"])
    index.add(vectors=vectors[:1], paths=["newer"], attributes={"price": [0.5], "sold": [True]})
    assert ids_of(index.search(vectors=vectors[:1], where="price is null")) == [[60]]
    (found,) = ids_of(index.search(vectors=vectors[:1], where="price < 1 and sold is null or sold"))
    assert sorted(found) == [0, 61]
    with pytest.raises(ValueError, match="The column price of the index is a number column. Received: a text"):
        index.add(vectors=vectors[:1], attributes={"price": ["cheap"]})
    assert len(index) == 62


def test_a_damaged_index_is_not_copied(vectors, tmp_path):
    with tfdml.Index() as made:
        made.add(vectors=vectors)
        made.save(tmp_path / "index")
    (rows,) = (tmp_path / "index").glob("*.parquet")
    rows.write_bytes(rows.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{rows.name} is damaged"):
        FolderStore(str(tmp_path / "index")).save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("kind", ["flat", "ivf(lists=3, probes=3)", "hnsw", "pq(subvectors=8, bits=4, lists=1)"])
def test_deleted_rows_are_not_found_and_compaction_is_automatic(kind, vectors, tmp_path):
    with tfdml.Index(kind=kind) as made:
        made.add(vectors=vectors)
        made.save(tmp_path / "index")
    left, rows = set(range(60)), np.random.default_rng(1).permutation(60)
    manifest = IndexFolder(tmp_path / "index").manifest
    with tfdml.Index.open(tmp_path / "index") as index:
        for part in (rows[:5], rows[5:10]):
            before = index.search(vectors=vectors, k=1)
            index.delete(part)
            left -= set(part.tolist())
            assert len(index) == len(left) and manifest()["count"] == 60 and manifest()["generation"] == 0
            found = index.search(vectors=vectors, k=60)
            assert all(set(each) <= left for each in ids_of(found))
            if not kind.startswith("pq"):
                assert ids_of(found) == nearest(vectors, vectors, left, 60)
            assert len(before) == 60
        # Another row is a fifth.
        index.delete(int(rows[10]))
        index.delete([int(rows[11])])
        left -= {int(rows[10]), int(rows[11])}
        assert len(index) == 48 == manifest()["count"] and not list((tmp_path / "index").glob("*.bits"))
        assert {id for each in ids_of(index.search(vectors=vectors, k=60)) for id in each} == left
        with pytest.raises(ValueError, match=f"{rows[0]} is not in the index .*, so nothing was deleted"):
            index.delete([int(min(left)), int(rows[0])])
        assert len(index) == 48
        with pytest.raises(ValueError, match="These are all images"):
            index.delete(left)


def test_ids_of_the_user(vectors):
    with tfdml.Index() as index:
        assert index.add(vectors=vectors[:2], ids=[70, 7]).tolist() == [70, 7]
        assert index.add(vectors=vectors[2:3]).tolist() == [71]
        for ids, words in (
            ([7], "has an image with the id 7"),
            ([-1], "integers of at least 0"),
            ([1.5], "integers of at least 0"),
        ):
            with pytest.raises(ValueError, match=words):
                index.add(vectors=vectors[3:4], ids=ids)
        index.delete(7, compact=True)
        assert index.add(vectors=vectors[3:4], ids=[7]).tolist() == [7]
        assert ids_of(index.search(vectors=vectors[3:4], k=1)) == [[7]] and len(index) == 3


def test_what_another_process_changes_counts_when_images_are_added(vectors, tmp_path):
    with tfdml.Index(store=tmp_path / "index") as index:
        index.add(vectors=vectors[:10])
        assert ids_of(index.search(vectors=vectors[3:4], k=1)) == [[3]]
        with tfdml.Index.open(tmp_path / "index") as other:
            other.delete(3, compact=True)
            assert other.add(vectors=vectors[10:11], ids=[20]).tolist() == [20]
        assert index.add(vectors=vectors[3:4], ids=[3]).tolist() == [3]
        with pytest.raises(ValueError, match="has an image with the id 20"):
            index.add(vectors=vectors[11:12], ids=[20])
        assert ids_of(index.search(vectors=vectors[[3, 10]], k=1)) == [[3], [20]] and len(index) == 11


def test_a_search_after_a_deletion_that_is_only_marked_reads_no_vectors(index, vectors, monkeypatch):
    assert ids_of(index.search(vectors=vectors[3:4], k=1)) == [[3]]
    read = []
    monkeypatch.setattr(folder_module, "read_faiss", read.append)
    index.delete(3)
    assert ids_of(index.search(vectors=vectors[[3, 4]], k=1))[1] == [4] and len(index) == 59
    assert 3 not in ids_of(index.search(vectors=vectors[3:4], k=59))[0] and not read


def test_a_function_and_a_keras_model(vectors, tmp_path):
    images = np.random.default_rng(2).random((20, 6, 6, 3)).astype(np.float32)
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((6, 6, 3)), keras.layers.Flatten(), keras.layers.Dense(DIM)]
    model, other = keras.Sequential(layers), keras.Sequential([*layers[:2], keras.layers.Dense(DIM)])
    embeddings = model.predict(images, verbose=0)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    for given in (model, lambda batch: model(batch)):
        with tfdml.Index(given) as index:
            index.add(images, labels=np.arange(20) % 3)
            found = index.search(images[:5], k=3)
            assert ids_of(found) == nearest(unit, unit[:5], range(20), 3) and found[2][0].label == "2"
            assert [each.label for each in index.label(images[:5], k=1)] == ["0", "1", "2", "0", "1"]
            index.save(tmp_path / ("keras" if given is model else "function"))
    with tfdml.Index.open(tmp_path / "keras", model) as index:
        index.add(images[:1], paths=["again"])
        assert len(index) == 21
    assert len(tfdml.Index.open(tmp_path / "function", lambda batch: model(batch))) == 20
    with pytest.raises(ValueError, match="was made with another model, so the embeddings cannot be compared"):
        tfdml.Index.open(tmp_path / "keras", other)
    index = tfdml.Index.open(tmp_path / "keras")
    assert ids_of(index.search(vectors=embeddings[:1], k=1)) == [[0]]
    with pytest.raises(ValueError, match="has no model. Search with vectors, or open it with its model"):
        index.search(images[:1])


@pytest.mark.slow
def test_a_keras_model_reads_files_if_it_says_how_they_are_prepared(photos, tmp_path):
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=2, stages=1), embedding_size=DIM)
    model.preprocessing = tfdml.Preprocessing(image_size=SIZE, mean=(127.5,) * 3, std=(63.75,) * 3)
    paths = ImageList.of(photos).paths
    embeddings = ImageEmbedder(model).embed(paths)
    with tfdml.Index(model) as index:
        assert index.add(str(photos)).tolist() == list(range(COUNT))
        (found,) = index.search(paths[:1], k=2)
        assert found[0].path == paths[0] and found[0].label == Path(paths[0]).parent.name
        assert found[0].similarity == pytest.approx(1, abs=1e-5)
        assert ids_of(index.search(vectors=embeddings[:3], k=1)) == ids_of(index.search(paths[:3], k=1))
        assert index.label(str(photos), k=1)[0].label == Path(paths[0]).parent.name
        bad = tmp_path / "bad.png"
        bad.write_text("text")
        with pytest.warns(UserWarning, match="1 of 2 images cannot be read, for example .*bad.png: .*They are skipped"):
            assert index.add([bad, paths[0]]).tolist() == [-1, COUNT]
        assert len(index.add([Path(paths[1]).read_bytes()])) == 1
        # Arrays are as the model takes them.
        arrays = model.predict(ImageEmbedder(model).prepare(paths[:2]), verbose=0)
        np.testing.assert_allclose(arrays, embeddings[:2], atol=1e-5)


def test_files_in_an_index_of_vectors_of_other_dimensions(photos, vectors, tmp_path):
    model = tfdml.Single(tfdml.backbones.Small(width=2, stages=1), embedding_size=DIM + 1)
    model.preprocessing = tfdml.Preprocessing(image_size=SIZE, mean=(127.5,) * 3, std=(63.75,) * 3)
    with tfdml.Index(store=tmp_path / "index") as index:
        index.add(vectors=vectors)
    with tfdml.Index.open(tmp_path / "index", model) as index:
        with pytest.raises(
            ValueError, match=rf"Vectors must have the shape \[count, {DIM}\]. Received: shape \[1, {DIM + 1}\]"
        ):
            index.search(ImageList.of(photos).paths[:1], k=1)


def test_what_a_model_needs_to_read_files_is_told(photos):
    layers = [keras.layers.Input((SIZE, SIZE, 3)), keras.layers.Flatten(), keras.layers.Dense(DIM)]
    paths = ImageList.of(photos).paths
    for model, words in (
        (keras.Sequential(layers), "Set the attributes mean, std and image_size of the model"),
        (tfdml.Single(keras.Sequential(layers)), r"Set model.preprocessing = tfdml.Preprocessing\(image_size="),
    ):
        with tfdml.Index(model) as index:
            with pytest.raises(ValueError, match="images is empty. Expected at least one image"):
                index.add([])
            for images in (str(photos), paths, paths[0]):
                with pytest.raises(ValueError, match=f"does not specify how image files are prepared for it.*{words}"):
                    index.add(images)
    declaring = keras.Sequential(layers)
    declaring.mean, declaring.std, declaring.image_size = (0.0,) * 3, (255.0,) * 3, SIZE
    with tfdml.Index(declaring) as index:
        assert len(index.add(paths)) == COUNT
    with tfdml.Index(lambda names: np.ones((len(names), DIM))) as index:
        assert len(index.add(["a.jpg", "b.jpg"])) == 2
        with pytest.raises(ValueError, match="A function receives the images as they are. Expected N images"):
            index.add(str(photos))


def test_an_index_that_is_closed_says_so(index, vectors):
    index.close()
    index.close()
    for act in (lambda: index.search(vectors=vectors), lambda: len(index), lambda: index.add(vectors=vectors)):
        with pytest.raises(ValueError, match="The index is closed"):
            act()


@pytest.mark.nightly
def test_files_of_the_command_open_in_python_and_the_other_way_round(photos, tmp_path):
    paths, embeddings = embeddings_of(photos)
    index_images(tmp_path / "made", ImageList.of(photos), model=exported())
    rows = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    with tfdml.Index(exported()) as index:
        assert index.add(photos).tolist() == list(range(COUNT))
        index.save(tmp_path / "saved")
        pixels = np.asarray(Image.open(paths[4]))
        assert index.add([pixels, Path(paths[3]).read_bytes()], paths=["x", "y"]).tolist() == [COUNT, COUNT + 1]
        assert index.search(pixels, k=2)[0][1].similarity == pytest.approx(1, abs=1e-5)
    for folder in ("made", "saved"):
        searcher = Searcher(tmp_path / folder)
        assert [each.path for each in searcher.search(paths[:1], k=COUNT)[0]] == [
            paths[row] for row in np.argsort(-(rows @ rows[0]), kind="stable")
        ]
        with tfdml.Index.open(tmp_path / folder) as index:
            assert len(index) == COUNT and index.search(paths[2], k=1)[0][0].path == paths[2]
            assert index.label(paths[:2], k=1)[1].label == "even"
        assert delete_images(tmp_path / folder, paths[:1], compact=False) == (1, COUNT - 1)
        assert len(tfdml.Index.open(tmp_path / folder, ExportedModel(exported()))) == COUNT - 1
        assert index_images(tmp_path / folder, ImageList.of(photos), add=True)[0] == COUNT


@pytest.mark.nightly
def test_what_load_returns_is_exported_with_the_index(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(searcher_module, "ExportedModel", ExportedModel)
    paths = sorted(map(str, photos.rglob("*.png")))
    embedder = tfdml.ImageEmbedder(
        two_learners()[0], tfdml.Preprocessing(image_size=SIZE, mean=(127,) * 3, std=(64,) * 3)
    )
    embeddings = embedder.embed(paths)
    with tfdml.Index(embedder) as index:
        index.add(paths)
        assert ids_of(index.search(paths, k=3)) == nearest(embeddings, embeddings, range(COUNT), 3)
        index.save(tmp_path / "saved")
    assert Searcher(tmp_path / "saved").search(paths[3], k=1)[0][0].path == paths[3]
    with pytest.raises(ValueError, match="contains a copy of its model. Open it without a model"):
        tfdml.Index.open(tmp_path / "saved", embedder)


def test_images_that_cannot_be_read_are_left_out_with_a_warning(photos, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"text")
    with tfdml.Index(exported()) as index:
        with pytest.warns(UserWarning, match="1 of 2 images cannot be read, for example .*bad.png: .*They are skipped"):
            given = [tmp_path / "bad.png", photos / "odd" / "01.png"]
            assert index.add(given, attributes={"n": [1, 2]}, labels=["a", "b"]).tolist() == [-1, 0]
        assert index.search(picture(1), where="n == 2")[0][0].label == "b"
        with pytest.raises(ValueError, match="1 of 1 images cannot be read, for example Image 0"):
            index.add([b"text"])


def test_what_cannot_be_done(vectors, tmp_path):
    with tfdml.Index() as index:
        assert len(index) == 0
        for act, words in [
            (lambda: index.search(vectors=vectors), "The index .* has no images. Add some first"),
            (lambda: index.add(), "needs either images or vectors. Received: neither"),
            (lambda: index.add(np.zeros((1, 4, 4, 3))), "The index has no model, so it only accepts vectors"),
            (
                lambda: index.add(vectors=vectors, labels=["a"]),
                "labels must have one value for each of 60 images. Received: 1",
            ),
            (
                lambda: index.add(vectors=vectors, attributes={"n": [1]}),
                r"attributes\['n'\] must have one value for each",
            ),
            (lambda: index.add(vectors=vectors, attributes={"label": [""] * 60}), "cannot have the name 'label'"),
            (lambda: index.add(vectors=vectors[:1], attributes={"n": [{}]}), "The attribute column n"),
            (lambda: index.add(vectors=vectors[:1], attributes={"n": [object()]}), "attribute column n cannot be"),
            (
                lambda: index.add(vectors=vectors[:2], paths=["a", "a"]),
                "Every path must be unique. Received: a 2 times",
            ),
            (lambda: index.add(vectors=vectors[0]), r"Embeddings must have the shape \[count, dimensions\]"),
            (lambda: index.add(vectors=np.full((1, 4), np.nan)), "The embedding of image 0 is NaN or infinite"),
        ]:
            with pytest.raises(ValueError, match=words) as caught:
                act()
            assert "\n" not in str(caught.value)
        index.add(vectors=vectors)
        with pytest.raises(ValueError, match="The index has vectors with 8 dimensions. Received: vectors with 4"):
            index.add(vectors=vectors[:, :4])
        with pytest.raises(ValueError, match=r"Vectors must have the shape \[count, 8\]. Received: shape \[60, 4\]"):
            index.search(vectors=vectors[:, :4])
        index.save(tmp_path / "saved")
        with pytest.raises(ValueError, match="saved already exists. Use a new folder"):
            index.save(tmp_path / "saved")
    with pytest.raises(ValueError, match="model must be an exported model, what tfdml.load returns, .* Received: int"):
        tfdml.Index(3)
    with pytest.raises(ValueError, match="is not a tfdml index"):
        tfdml.Index.open(tmp_path)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_could_not_be_added_is_not_there(vectors, tmp_path, monkeypatch, error):
    def fails(*_, **__):
        raise error

    for start in (0, 2):
        with tfdml.Index(store=tmp_path / "index") as index:
            with monkeypatch.context() as patches:
                patches.setattr(IndexFolder, "write", fails)
                with pytest.raises(error):
                    index.add(vectors=vectors[start : start + 2])
            index.add(vectors=vectors[start : start + 2])
            assert len(index) == start + 2 == len(EmbeddingShards(tmp_path / "index" / "embeddings"))


def test_what_the_index_has_keeps_its_embeddings_whatever_fails_then(vectors, tmp_path, monkeypatch):
    with tfdml.Index(store=tmp_path / "index") as index:
        with monkeypatch.context() as patches:
            patches.setattr(folder_module, "_write_bad", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.add(vectors=np.repeat(vectors[:1], 2, axis=0))
        assert len(index) == 2 and len(index.duplicates()) == 1


def test_rows_that_a_kill_has_left_are_not_twice_there(vectors, tmp_path, monkeypatch):
    about = {"vectors": vectors[:2], "paths": ["a", "b"]}
    with tfdml.Index(store=tmp_path / "index") as index:
        with monkeypatch.context() as patches:
            patches.setattr(IndexFolder, "write", lambda *_, **__: 1 / 0)
            patches.setattr(EmbeddingShards, "remove", lambda *_: None)
            with pytest.raises(ZeroDivisionError):
                index.add(**about)
        index.add(**about)
        assert len(index) == 2 and len(index.search(vectors=vectors[:1], k=9)[0]) == 2


def test_duplicates_by_distance_need_a_threshold(vectors):
    with tfdml.Index(metric="euclidean") as index:
        index.add(vectors=np.concatenate([vectors[:5], vectors[:1]]))
        with pytest.raises(ValueError, match="minus a distance. Received: threshold=0.95"):
            index.duplicates()
        assert [sorted(each.id for each in pair) for pair in index.duplicates(-0.001)] == [[0, 5]]


def test_groups_of_duplicates(vectors):
    """As connected components of all pairs, by a search in the graph."""
    random = np.random.default_rng(3)
    many = np.concatenate([vectors[:12], vectors[:12] + 0.05 * random.normal(size=(12, DIM)), vectors[20:40]])
    unit = many / np.linalg.norm(many, axis=1, keepdims=True)
    near = np.triu(unit @ unit.T >= 0.8, 1)
    near |= near.T
    groups, seen = [], set()
    for start in range(len(many)):
        group, waiting = set(), [start]
        while waiting:
            row = waiting.pop()
            if row not in group:
                group.add(row)
                waiting.extend(np.flatnonzero(near[row]).tolist())
        if len(group) > 1 and not group & seen:
            groups.append(group)
            seen |= group
    with tfdml.Index() as index:
        index.add(vectors=many)
        found = index.duplicate_groups(0.8)
        assert len(index.duplicates(0.8)) == near.sum() / 2
        assert {frozenset([each.representative.id, *(other.id for other in each.others)]) for each in found} == set(
            map(frozenset, groups)
        )
        for each in found:
            rows = [each.representative.id, *(other.id for other in each.others)]
            assert near[each.representative.id].sum() == near[rows].sum(axis=1).max()
        sizes = [len(each.others) for each in found]
        assert sizes == sorted(sizes, reverse=True)
        # Also without rows that are deleted.
        chosen = found[0].representative.id
        index.delete(chosen)
        left = index.duplicates(0.8)
        assert len(left) == near.sum() / 2 - near[chosen].sum() and all(chosen not in (a.id, b.id) for a, b in left)


def test_a_deletion_that_is_only_marked_is_erased_by_compaction(photos, tmp_path):
    out = tmp_path / "index"
    index_images(out, ImageList.of(photos), model=exported())
    path = str(photos / "odd" / "01.png")
    delete_images(out, [path], compact=False)

    def held():
        return b"".join(file.read_bytes() for file in (*out.glob("*.*"), *(out / "embeddings").iterdir()))

    assert path.encode() in held() and len(Searcher(out)) == COUNT - 1
    assert compact_index(out) == COUNT - 1 and path.encode() not in held() and len(Searcher(out)) == COUNT - 1
    assert compact_index(out) == COUNT - 1
    # A bitmap that is damaged is refused.
    delete_images(out, [str(photos / "odd" / "03.png")], compact=False)
    (bits,) = out.glob("deleted-*.bits")
    bits.write_bytes(b"")
    with pytest.raises(ValueError, match=f"{bits.name} is damaged"):
        Searcher(out)


@pytest.mark.nightly
def test_the_examples_of_the_page_run(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(exported(), "exported/1")
    shutil.copytree(photos, "photos")
    Path("query.jpg").write_bytes(picture(40, kind="JPEG"))
    text = (Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8")
    section = re.search(r"\n## In Python\n(.*?)\n## ", text, re.DOTALL)[1]
    names = {}
    for example in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(compile(example, "docs/search.md", "exec"), names)
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == [str(COUNT), "1.0", "bus", str(tmp_path / "query.jpg")] or told[0].startswith(
        f"{COUNT} 0.99"
    )
    assert told[3] == "20 True 0" and told[4].startswith("97 [] [DuplicateGroup(")
    assert len(tfdml.Index.open("saved_index")) == COUNT + 1
