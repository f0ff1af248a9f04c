"""What a backbone declares of its images is what training, evaluation and serving do."""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tfdml
from pipelines.build import evaluation_batches, training_batches
from pipelines.datasets import Split
from pipelines.preprocessing import declared_by, image_size_of, preprocessing_of
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import PxK
from tfdml import serving
from tfdml.console import flags
from tfdml.console.settings import ImageSettings
from tfdml.registry.arguments import MOST_SIDE
from tfdml.run.experiment.images import ImageData

COLOURS = np.array([[200, 100, 50], [10, 250, 30], [0, 80, 160], [255, 255, 0]])
MEAN, STD = (104.0, 117.0, 123.0), (2.0, 4.0, 5.0)


def caffe_like_model():
    """Its backbone wants blue first."""
    inputs = keras.Input((None, None, 3))
    features = keras.layers.Conv2D(4, 1, name="features")(inputs)
    arguments = {"mean": MEAN, "std": STD, "channels": "bgr", "image_size": 16}
    return tfdml.Single(tfdml.backbones.Backbone(inputs, {"features": features}, **arguments), embedding_size=3)


def pictures():
    """One colour each, as files in memory."""
    files = []
    for colour in COLOURS:
        file = io.BytesIO()
        Image.new("RGB", (20, 18), tuple(map(int, colour))).save(file, "PNG")
        files.append(file.getvalue())
    return Split(np.array(files, dtype=object), np.array([0, 0, 1, 1]))


@pytest.mark.slow
def test_training_evaluation_and_serving_agree(tmp_path):
    model, split = caffe_like_model(), pictures()
    prepare = ImageData(ImageSettings(), strategy=None).preprocessor(model, "warp")
    expected = (COLOURS[:, ::-1] - np.array(MEAN)) / np.array(STD)

    (evaluated,) = evaluation_batches(split, prepare, batch_size=4)
    assert evaluated.shape == (4, 16, 16, 3)
    np.testing.assert_allclose(evaluated[:, 8, 8], expected, rtol=1e-5)

    sampler = PxK(classes=2, per_class=2)
    sampler.bind(split.labels)
    step = tf.Variable(0, dtype=tf.int64)
    ((images, _),) = training_batches(split, sampler, prepare, seed=0, step=step, steps_per_epoch=1)
    trained = sorted(images[:, 8, 8].numpy().tolist())
    np.testing.assert_allclose(trained, sorted(expected.tolist()), rtol=1e-5)

    embeddings = model(evaluated)
    serving.export(model, prepare, tmp_path / "saved")
    served = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"](tf.constant(list(split.images)))
    np.testing.assert_allclose(served["embedding"], embeddings, atol=1e-5)
    colours = np.broadcast_to(expected[:, None, None], (4, 16, 16, 3)).astype(np.float32)
    np.testing.assert_allclose(served["embedding"], model(colours), atol=1e-5)


def test_of_other_networks_pixels_are_scaled_to_one():
    found = preprocessing_of(tfdml.Single(keras.layers.Conv2D(4, 1)))
    assert found == {"mean": (0.0,) * 3, "std": (255.0,) * 3, "channels": "rgb", "interpolation": "bilinear"}


def test_what_a_network_declares_is_the_same_in_a_model():
    small = tfdml.backbones.Small(width=4, stages=1)
    expected = {"mean": (127.5,) * 3, "std": (63.75,) * 3, "channels": "rgb", "image_size": 48}
    expected["interpolation"] = "bilinear"
    assert declared_by(small) == declared_by(tfdml.Single(small)) == expected
    own = keras.layers.Conv2D(4, 1)
    assert declared_by(own) == declared_by(tfdml.Single(own)) == declared_by(None) == {}
    own.mean, own.std = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    assert declared_by(tfdml.Single(own)) == {"mean": own.mean, "std": own.std}
    assert preprocessing_of(own) == declared_by(own) | {"channels": "rgb", "interpolation": "bilinear"}


def test_the_size_is_the_backbones_unless_another_is_asked_for():
    assert image_size_of(tfdml.backbones.Small(width=4, stages=1)) == 48
    assert image_size_of(tfdml.backbones.Small(width=4, stages=1), 32) == 32
    with pytest.raises(ValueError, match="^image_size is missing.*Pass image_size="):
        image_size_of(keras.layers.Conv2D(4, 1))


@pytest.mark.parametrize("size", ["0", "8", "224", str(MOST_SIDE), "256x128", "8x4096"])
def test_sizes_that_the_flag_takes(size):
    assert flags.resolve([f"--image_size={size}"])["image_size"] == f"--image_size={size}"


def test_a_square_has_one_size_however_it_is_written():
    """Runs and files of before are the same."""
    assert flags.resolve(["--image_size=224x224"]) == flags.resolve(["--image_size=224"])
    assert flags.parse("--image_size=224x224") == flags.parse("--image_size=224")
    assert tfdml.Preprocessing(image_size=(224, 224)) == tfdml.Preprocessing(image_size=224)
    prepare = Preprocessor("warp", image_size=(8, 8), mean=MEAN, std=STD)
    assert (prepare.image_shape, prepare.name) == ((8, 8, 3), "warp 8 False")


@pytest.mark.parametrize("size", ["-1", "7", "4097", "8.0", "256x", "x128", "axb", "0x128", "7x7", "5000x10", "8x8x3"])
def test_sizes_that_the_flag_refuses(size):
    expected = "Expected a side such as 224, or height x width such as 256x128, each from 8 to 4096; or 0 for the de"
    with pytest.raises(Exception, match=f"--image_size=.*: {expected}"):
        flags.resolve([f"--image_size={size}"])


@pytest.mark.parametrize("size", [0, -1, 8.0, None, 4097, 10**9, True, "8x8", (8,), (8, 0), (8, 8, 8), (8, 4097)])
def test_a_size_that_is_none_is_refused(size):
    expected = "image_size must be an integer from 1 to 4096, the side of a square, or a pair of such, .height, "
    with pytest.raises(ValueError, match=expected):
        tfdml.Preprocessing(image_size=size)


def test_height_and_width_come_back_from_a_file(tmp_path):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=1), embedding_size=3)
    model.preprocessing = tfdml.Preprocessing.of(model, image_size=(16, 8), transform="warp")
    assert model.preprocessing.image_shape == (16, 8, 3)
    model.call_on((1, 16, 8, 3))
    model.save(tmp_path / "model.keras")
    loaded = tfdml.load(tmp_path / "model.keras")
    assert loaded.preprocessing == model.preprocessing and "images of 16 x 8 pixels" in repr(loaded)
    pixels = [np.full((20, 10, 3), color, np.uint8) for color in COLOURS]
    images = loaded.prepare(pixels)
    assert images.shape == (4, 16, 8, 3) and loaded.prepare([]).shape == (0, 16, 8, 3)
    np.testing.assert_allclose(loaded.embed(pixels), model(images), atol=1e-5)
    assert loaded.embed([]).shape == (0, 3)
    # As JSON has it.
    assert model.preprocessing.get_config()["image_size"] == [16, 8]
    assert tfdml.Preprocessing(**model.preprocessing.get_config()) == model.preprocessing
    assert tfdml.Preprocessing(image_size=16).get_config()["image_size"] == 16
