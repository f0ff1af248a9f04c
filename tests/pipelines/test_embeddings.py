"""Stored features in place of images: every format gives the same rows, gathered as they stand in the file."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import evaluation_batches, training_batches
from pipelines.datasets import load
from pipelines.datasets.loading import from_anywhere
from pipelines.images.decoding import image_of, thumbnails
from pipelines.reading import cache
from pipelines.sampling import PxK
from pipelines.stored import StoredVectors
from tests.commands import assert_one_error, run
from tfdml.files.shards import EmbeddingShards

ROWS, DIMS = 40, 6


@pytest.fixture
def stored(tmp_path):
    """Arrays of eight classes with five rows each, in `x.npz`; and the folder."""
    arrays = {
        "embeddings": np.random.default_rng(0).normal(size=(ROWS, DIMS)).astype(np.float32),
        "labels": np.repeat(np.arange(8) * 3, 5),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    return arrays, tmp_path


def spec(folder, path="x.npz", **arguments):
    arguments = {"path": path, **arguments}
    paths = ("path", "test", "labels", "test_labels")
    whole = {name: str(folder / value) if name in paths else value for name, value in arguments.items()}
    return f"embeddings({', '.join(f'{name}={value!r}' for name, value in whole.items())})"


def test_every_format_gives_the_same_rows(stored):
    arrays, folder = stored
    vectors, names = arrays["embeddings"], arrays["labels"].astype(str)
    np.save(folder / "x.npy", vectors)
    np.save(folder / "y.npy", names)
    shards = EmbeddingShards.create(folder / "embedded", model="m", dimension=DIMS)
    shards.append([f"{row}.jpg" for row in range(ROWS)], names.tolist(), vectors)
    first, *others = (
        load(spec(folder, test_classes=0.25)),
        load(spec(folder, "x.npy", labels="y.npy", test_classes=0.25)),
        load(spec(folder, "embedded", test_classes=0.25)),
    )
    assert len(first.train) == 30 and first.train.num_classes == 6 and first.protocol == "query_gallery"
    for part in ("train", "test"):
        rows = np.isin(names, first.classes()[part])
        np.testing.assert_array_equal(first.splits()[part].images.read(), vectors[rows])
        for other in others:
            assert other.classes() == first.classes()
            np.testing.assert_array_equal(other.splits()[part].images.read(), vectors[rows])


def test_two_files_divide_training_and_test_by_names(stored):
    arrays, folder = stored
    for name, rows in (("a", slice(0, 25)), ("b", slice(25, None))):
        labels = arrays["labels"][rows]
        marks = {"is_query": labels == 15, "is_gallery": labels > 0, "cameras": labels}
        labels = labels.astype(str) if name == "b" else labels
        np.savez(folder / f"{name}.npz", embeddings=arrays["embeddings"][rows], labels=labels, **marks)
    dataset = load(spec(folder, "a.npz", test="b.npz"))
    assert dataset.classes() == {"train": ["0", "3", "6", "9", "12"], "test": ["15", "18", "21"]}
    assert dataset.train.is_query is None and dataset.train.cameras[-1] == 12
    assert dataset.test.is_query.sum() == 5 and dataset.test.is_gallery.all()


def test_several_files_stand_side_by_side(stored):
    arrays, folder = stored
    np.savez(folder / "z.npz", embeddings=np.arange(ROWS * 2).reshape(ROWS, 2), labels=arrays["labels"])
    paths = (str(folder / "x.npz"), str(folder / "z.npz"))
    test = load(f"embeddings(path={paths!r}, test_classes=1.0)", test_only=True).test
    expected = np.concatenate([arrays["embeddings"], np.arange(ROWS * 2).reshape(ROWS, 2)], axis=1)
    np.testing.assert_array_equal(test.images.read(), expected)
    assert test.images.dims == DIMS + 2 and test.images[7].tolist() == expected[7].tolist()


@pytest.mark.parametrize("memory", [1e12, 0])
def test_batches_are_gathered(stored, memory, monkeypatch):
    """In memory or not, rows of a batch are those that a loop over the sampler's rows takes."""
    monkeypatch.setattr(cache, "free_memory", lambda: memory)
    split = load(spec(stored[1], test_classes=0.25)).train.numbered()
    sampler = PxK(3, 2)
    sampler.bind(split.labels)
    step = tf.Variable(2, dtype=tf.int64)
    batches = list(training_batches(split, sampler, None, seed=5, step=step, steps_per_epoch=6, length=4))
    tables = tuple(sampler.tables())
    for number, (vectors, labels) in zip(range(2, 6), batches, strict=True):
        rows = sampler.rows(tf.constant(5, tf.int64), tf.constant([number], tf.int64), tables)[0].numpy()
        np.testing.assert_array_equal(vectors, split.images.read(rows))
        assert labels.numpy().tolist() == split.labels[rows].tolist()
    evaluated = [batch.numpy() for batch in evaluation_batches(split, None, batch_size=7)]
    assert [batch.shape for batch in evaluated] == [(7, DIMS)] * 5
    np.testing.assert_array_equal(np.concatenate(evaluated)[: len(split)], split.images.read())
    assert (evaluated[-1][-5:] == split.images[len(split) - 1]).all()


def test_a_vector_has_a_picture_and_a_fingerprint():
    vectors = StoredVectors([np.array([[0.0, 1, 2, 4, 4], [0, 0, 0, 0, 0], [0, 1, 2, 4, 4]])])
    assert vectors.picture(0)[..., 0].tolist() == [[0, 63, 127], [255, 255, 0], [0, 0, 0]]
    assert not vectors.picture(1).any()
    one, other, same = vectors.fingerprints()
    assert one == same != other


def test_a_row_is_drawn_where_images_are_shown(stored):
    test = load(spec(stored[1], test_classes=0.25)).test
    np.testing.assert_array_equal(image_of(test, 3), test.images.picture(3))
    assert thumbnails(test, [0, 3], 16).shape == (2, 16, 16, 3)


def test_paths_are_valid_in_every_folder(stored, monkeypatch):
    monkeypatch.chdir(stored[1])
    made = from_anywhere("embeddings(path=('x.npz', '/y.npz'), test='x.npz', seed=3)", "")
    folder = str(stored[1])
    assert made == f"embeddings(path=('{folder}/x.npz', '/y.npz'), test='{folder}/x.npz', seed=3)"


def test_bad_files_are_one_line(stored):
    arrays, folder = stored
    vectors, labels = arrays["embeddings"], arrays["labels"]
    np.save(folder / "x.npy", vectors)
    np.savez(folder / "wide.npz", embeddings=np.zeros((ROWS, 9)), labels=labels + 100)
    np.savez(folder / "nan.npz", embeddings=np.where(labels[:, None] == 3, np.nan, vectors), labels=labels)
    np.savez(folder / "complex.npz", embeddings=vectors + 1j, labels=labels)
    np.savez(folder / "others.npz", embeddings=vectors, labels=labels[::-1])
    sides = (str(folder / "x.npz"), str(folder / "others.npz"))
    for given, words in {
        spec(folder): "needs either test, .* or test_classes, .* Received: neither",
        spec(folder, test="x.npz", test_classes=0.3): "Received: both",
        spec(folder, test="x.npz"): "Training and test must have different classes; embeddings has 8 in both",
        spec(folder, test="wide.npz"): "must have the same number of dimensions. Received: 6 and 9",
        spec(folder, "x.npy", test_classes=0.3): "x.npy contains only vectors. Pass labels=",
        spec(folder, labels="x.npy", test_classes=0.3): "labels=.* is only used with .npy files",
        spec(folder, "nan.npz", test_classes=0.3): "nan.npz: 5 of 40 embeddings are not finite. The first is row 5",
        spec(folder, "complex.npz", test_classes=0.3): "must be numbers. Received: dtype=complex",
        spec(folder, "none.npz", test_classes=0.3): "none.npz does not exist",
        f"embeddings(path={sides!r}, test_classes=0.3)": "others.npz and .*x.npz must have the same labels",
    }.items():
        with pytest.raises(ValueError, match=words):
            load(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, flags, words",
    [
        ("pipelines.check", [], "pipelines.check needs images, but the dataset embeddings has vectors"),
        ("pipelines.pack", ["--out={}/packed"], "pipelines.pack needs images"),
    ],
)
def test_commands_that_need_images_say_so(stored, command, flags, words):
    folder = stored[1]
    flags = [f"--dataset={spec(folder, test_classes=0.25)}", *(flag.format(folder) for flag in flags)]
    assert_one_error(run(command, *flags), words)
