"""Exported models that tests of serving share: random networks on images of 24 pixels."""

import functools
import io
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import tfdml
from pipelines.preprocessing import preprocessing_of
from pipelines.preprocessor import Preprocessor
from tests.run_helpers import made_once
from tfdml.serving import ExportedModel, export
from tfdml.serving.exported_model import model_hash
from tfdml.serving.index import build, searcher
from tfdml.serving.index.stores import engine

SIZE = 24


@functools.cache
def two_learners():
    """A model of two learners with 16 dimensions together, and its preprocessor."""
    keras.utils.set_random_seed(0)
    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=8, stages=2), learners=2, embedding_size=16)
    model(np.zeros((1, SIZE, SIZE, 3), np.float32))
    return model, Preprocessor("resize_short|center_crop", image_size=SIZE, **preprocessing_of(model))


@functools.cache
def exported():
    """Folder of the SavedModel of `two_learners`, for which a file that cannot be read is an error."""
    return made_once("exported", lambda path: export(*two_learners(), path))


@functools.cache
def exported_tolerant():
    """The same, with the output `valid`."""
    return made_once("exported-tolerant", lambda path: export(*two_learners(), path, tolerant=True))


@functools.cache
def towers():
    """A model with two towers for images and texts, and its preprocessor."""
    keras.utils.set_random_seed(0)
    text = tfdml.texts.SmallText(width=8, depth=1, heads=2, length=32)
    model = tfdml.TwoTowers(tfdml.backbones.Small(width=4, stages=2), text, embedding_size=16)
    model(np.zeros((1, SIZE, SIZE, 3), np.float32))
    return model, Preprocessor("resize_short|center_crop", image_size=SIZE, **preprocessing_of(model))


@functools.cache
def exported_towers():
    """Folder of the SavedModel of `towers`."""
    return made_once("exported-towers", lambda path: export(*towers(), path, tolerant=True))


def picture(seed, height=30, width=40, kind="PNG"):
    """The contents of a file with random pixels."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height // 5, width // 5, 3), np.uint8)
    Image.fromarray(pixels).resize((width, height)).save(file, kind)
    return file.getvalue()


def nearly(content):
    """The contents of a file that differs a little in the middle."""
    pixels, file = np.asarray(Image.open(io.BytesIO(content))).copy(), io.BytesIO()
    pixels[14:16, 18:22] = 255
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def claims_pixels(content, side=60_000):
    """The PNG with a header that claims to be a square of this side."""
    return content[:16] + 2 * side.to_bytes(4, "big") + content[24:]


def embedded_alone(model, images):
    """Embeddings of pixels by a file for ONNX Runtime or LiteRT, in a process without TensorFlow."""
    program, folder = Path(__file__).parent / "programs" / "embed_pixels.py", model.parent
    np.save(folder / "images.npy", images)
    command = [sys.executable, program, model, folder / "images.npy", folder / "found.npy"]
    subprocess.run(command, check=True, cwd=folder)
    return np.load(folder / "found.npy")


@functools.cache
def loaded(digest):
    """The exported model with a hash, loaded once for all tests: each time takes most of a second."""
    paths = (path() for path in (exported, exported_tolerant, exported_towers))
    return ExportedModel(next(path for path in paths if model_hash(path) == digest))


@pytest.fixture(scope="module", autouse=True)
def models_load_once():
    """Indexes and searchers take the loaded model for their copies of it."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (searcher, build, build, engine):
            patch.setattr(module, "ExportedModel", lambda path: loaded(model_hash(path)))
        yield
