"""Models from files embed paths, pixels and datasets as evaluation does."""

import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tfdml
from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from pipelines.preprocessing import Preprocessing
from tfdml.console import flags
from tfdml.evaluation import Embedder
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.images import ImageData

OWN = {"transform": "resize_short(size=20)|center_crop", "image_size": 16, "channels": "bgr", "mean": (104, 117, 123)}


class Run:
    """A run directory with a model, image files of several sizes, their pixels, and what evaluation makes of them."""

    def __init__(self, folder):
        random = np.random.default_rng(0)
        self.path, self.paths = folder / "run", []
        for number, ending in enumerate(["jpg", "png", "jpg", "png", "png"]):
            # Smooth, so that images differ when they are blurred, too.
            pixels = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            image = Image.fromarray(pixels).resize((50 - 5 * number, 20 + 7 * number), Image.Resampling.BICUBIC)
            self.paths.append(folder / f"{number}.{ending}")
            image.save(self.paths[-1])
        self.pixels = [np.asarray(Image.open(path)) for path in self.paths]
        keras.utils.set_random_seed(0)
        self.model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
        settings = flags.resolve([f"--image_size={OWN['image_size']}", f"--test_transform={OWN['transform']}"])
        run = RunDirectory(self.path)
        run.claim(settings)
        self.data = ImageData(run.settings().images, strategy=None)
        self.model.preprocessing = self.data.preprocessing(self.model)
        split = Split(np.array([str(path) for path in self.paths], dtype=object), np.zeros(5, np.int64))
        self.model.predict(np.zeros((1, 16, 16, 3), np.float32), verbose=0)
        batches = evaluation_batches(split, self.data.preprocessor(self.model, OWN["transform"]), batch_size=5)
        self.expected = Embedder(self.model, verbose=0)(batches, 5)
        self.model.save(run.model)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("loading"))


@pytest.fixture(scope="module")
def embedder(run, tmp_path_factory):
    """Of a copy of the file alone."""
    copy = tmp_path_factory.mktemp("copied") / "copied.keras"
    shutil.copy(run.path / "model.keras", copy)
    return tfdml.load(copy)


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def same(found, expected):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_test_can_fail(run):
    assert run.expected.shape == (5, 8) and np.ptp(run.expected, axis=0).max() > 0.01
    np.testing.assert_allclose(np.linalg.norm(run.expected, axis=1), 1, atol=1e-5)


# PIL decodes JPEGs a little differently.
PNG = [1, 3, 4]
# Function of a run that gives images, and the numbers of those that they are.
IMAGES = {
    "paths": (lambda run: run.paths, [*range(5)]),
    "path": (lambda run: str(run.paths[3]), [3]),
    "contents": (lambda run: [path.read_bytes() for path in run.paths[:2]], [0, 1]),
    "content": (lambda run: run.paths[1].read_bytes(), [1]),
    "bytearray": (lambda run: bytearray(run.paths[0].read_bytes()), [0]),
    "tensor of paths": (lambda run: tf.constant([str(path) for path in run.paths[:2]]), [0, 1]),
    "tensor of a path": (lambda run: tf.constant(str(run.paths[1])), [1]),
    "tensor of a content": (lambda run: tf.io.read_file(str(run.paths[1])), [1]),
    "dataset of contents": (
        lambda run: tf.data.Dataset.from_tensor_slices([path.read_bytes() for path in run.paths[:2]]),
        [0, 1],
    ),
    "arrays": (lambda run: [run.pixels[number] for number in PNG], PNG),
    "float64": (lambda run: [run.pixels[number].astype("float64") for number in PNG], PNG),
    "PIL": (lambda run: [Image.open(run.paths[number]) for number in PNG], PNG),
    "array": (lambda run: run.pixels[1], [1]),
    "stack": (lambda run: np.stack([run.pixels[1]] * 3), [1, 1, 1]),
    "tensor of pixels": (lambda run: tf.constant(run.pixels[1], tf.float32), [1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.few_by_day(5)
def test_images_of_every_kind(run, embedder, silent, kind):
    images, rows = IMAGES[kind]
    same(embedder.embed(images(run), batch_size=2, verbose=0), run.expected[rows])


def test_prepared_images_are_what_the_network_takes(run, embedder):
    for images in (run.paths, run.pixels):
        prepared = embedder.prepare(images)
        assert prepared.shape == (5, 16, 16, 3) and prepared.dtype == np.float32
        np.testing.assert_allclose(embedder.model(prepared), embedder.embed(images, verbose=0), atol=1e-5)
    assert embedder.prepare([]).shape == (0, 16, 16, 3)
    with pytest.warns(UserWarning, match="Image 0 has pixels from 0 to 1. Expected pixels from 0 to 255"):
        embedder.prepare([np.linspace(0, 1, 192).reshape(8, 8, 3)])


@pytest.mark.nightly
def test_datasets(run, embedder, silent):
    paths = tf.data.Dataset.from_tensor_slices([str(path) for path in run.paths])
    for dataset in (paths, paths.batch(2), tf.data.Dataset.zip((paths, tf.data.Dataset.range(5)))):
        same(embedder.embed(dataset, verbose=0), run.expected)
    pixels = tf.data.Dataset.from_tensors(run.pixels[1]).repeat(5)
    for dataset in (pixels, pixels.batch(2), pixels.map(lambda image: tf.cast(image, tf.float32))):
        same(embedder.embed(dataset, batch_size=2, verbose=0), run.expected[[1] * 5])


def test_nothing(embedder):
    for nothing in ([], np.zeros((0, 8, 8, 3)), tf.data.Dataset.from_tensors(np.zeros((8, 8, 3))).take(0)):
        assert embedder.embed(nothing, verbose=0).shape == (0, 8)


def test_a_bar_shows_progress_where_it_is_asked_for(run, embedder, capsys):
    embedder.embed(run.paths, batch_size=2)
    embedder.embed(tf.data.Dataset.from_tensor_slices(run.pixels[:1]), batch_size=2)
    assert capsys.readouterr().out == ""
    embedder.embed(run.paths, batch_size=2, verbose=1)
    assert "3/3" in capsys.readouterr().out


def test_the_file_holds_all_of_the_preprocessing(run, tmp_path):
    whole = Preprocessing(**OWN, shrink=True, interpolation="bicubic")
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=1), preprocessing=whole)
    model(np.zeros((1, 16, 16, 3), np.float32))
    model.save(tmp_path / "model.keras")
    found = tfdml.load(tmp_path / "model.keras").preprocessing
    assert found == whole == Preprocessing(**found.get_config())
    assert (found.mean, found.channels, found.shrink) == ((104.0, 117.0, 123.0), "bgr", True)
    assert found.interpolation == "bicubic"


@pytest.mark.slow
def test_a_model_without_it_takes_what_is_given(run, tmp_path):
    run.model.preprocessing, stored = None, run.model.preprocessing
    try:
        run.model.save(tmp_path / "alone.keras")
    finally:
        run.model.preprocessing = stored
    with pytest.raises(ValueError, match="alone.keras has no preprocessing.*preprocessing="):
        tfdml.load(tmp_path / "alone.keras")
    given = tfdml.load(tmp_path / "alone.keras", preprocessing=stored)
    same(given.embed(run.paths, verbose=0), run.expected)


def test_files_that_are_no_model_are_named(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        tfdml.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="not a tfdml run directory"):
        tfdml.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no final model yet"):
        tfdml.load(run.path, model="final")
    (tmp_path / "cut.keras").write_bytes((run.path / "model.keras").read_bytes()[:1000])
    with pytest.raises(ValueError, match="cut.keras is not a Keras model or is damaged"):
        tfdml.load(tmp_path / "cut.keras")
    (tmp_path / "x.weights.h5").write_bytes(b"HDF")
    with pytest.raises(ValueError, match="x.weights.h5 is not a .keras file.*Then model.save"):
        tfdml.load(tmp_path / "x.weights.h5")
    folder = tmp_path / "folder.h5"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="folder.h5 is not a tfdml run directory"):
        tfdml.load(folder)
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).save(tmp_path / "other.keras")
    with pytest.raises(ValueError, match="other.keras must contain .* Received: a Sequential"):
        tfdml.load(tmp_path / "other.keras")


def test_images_that_cannot_be_read_are_named_with_their_position(run, embedder, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match="Image 2, .*bad.jpg, cannot be read: "):
        embedder.embed([*run.paths[:2], tmp_path / "bad.jpg"], verbose=0)
    with pytest.raises(ValueError, match="Image 2, .*bad.jpg, cannot be read: "):
        embedder.prepare([*run.paths[:2], tmp_path / "bad.jpg"])
    with pytest.raises(FileNotFoundError, match="Image 1, .*gone.jpg, does not exist"):
        embedder.embed([run.paths[0], tmp_path / "gone.jpg"])
    with pytest.raises(FileNotFoundError, match="Image 0, .* is a folder"):
        embedder.embed(tmp_path)
    with pytest.raises(ValueError, match="must be paths, like the first one. Received: ndarray at position 1"):
        embedder.embed([run.paths[0], run.pixels[1]])
    with pytest.raises(ValueError, match="must be contents of files, like the first one. Received: str at position 1"):
        embedder.embed([run.paths[0].read_bytes(), str(run.paths[1])])
    with pytest.raises(ValueError, match="Image 0 is the path .* as bytes. Pass it as text"):
        embedder.embed(str(run.paths[0]).encode())
    with pytest.raises(ValueError, match="Image 1 cannot be read: "):
        embedder.embed([run.paths[0].read_bytes(), b"no image"], verbose=0)


@pytest.mark.parametrize(
    "images, message",
    [
        ([np.zeros((8, 8, 3)), np.zeros((8, 8))], r"Image 1 must have the shape \[height, width, 3\]. .* \(8, 8\)"),
        (np.zeros((2, 8, 8, 4)), r"Image 0 .* \(8, 8, 4\)"),
        ([np.full((8, 8, 3), np.nan)], "Image 0 has pixels that are NaN"),
        (tf.constant([["a.jpg"]]), r"paths or contents of files \[N\]. Received: shape \(1, 1\)"),
        (5, "must be paths, contents of files, or arrays of pixels. Received: int"),
        ({"image": np.zeros((8, 8, 3))}, "Received: dict"),
        (tf.data.Dataset.range(3), "elements of the dataset must be paths, or pixels"),
        (tf.data.Dataset.from_tensors(np.zeros((8, 8, 3))).repeat(), "repeats forever"),
    ],
)
def test_what_is_no_image_is_named_with_its_position(embedder, images, message):
    with pytest.raises(ValueError, match=message):
        embedder.embed(images)


IMAGE = np.linspace(0, 255, 192).reshape(8, 8, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "image, says",
    [
        (IMAGE, None),
        (IMAGE.astype("uint16"), None),
        (np.round(IMAGE / 255), None),
        (np.zeros((8, 8, 3)), None),
        (IMAGE * 1.05 - 5, None),
        (IMAGE / 255, "from 0 to 1. Expected pixels from 0 to 255"),
        (IMAGE / 255 * 0.4 + 0.2, "from 0.2 to 0.6. Expected pixels from 0 to 255"),
        (IMAGE / 127.5 - 1, "from -1 to 1. Expected pixels from 0 to 255"),
        (IMAGE - 117, "from -117 to 138"),
        (IMAGE * 257, "Expected pixels from 0 to 255"),
    ],
)
@pytest.mark.few_by_day(3)
def test_embed_warns_of_pixels_that_are_not_0_to_255(embedder, image, says):
    for images in ([np.zeros((8, 8, 3), np.uint8), image], tf.data.Dataset.from_tensors(image)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            embedder.embed(images, verbose=0)
        found = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
        # Prepared, some are outside of what the network takes as well.
        assert not found if says is None else says in found[0]
