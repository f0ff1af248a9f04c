"""Writes the folder of an exported model: the SavedModel, other formats and the card."""

from pathlib import Path

import keras
import tensorflow as tf

from pipelines.preprocessing import Preprocessor
from tfdml.console.startup import __version__
from tfdml.files.checked import whole_folder
from tfdml.serving.exported.lite import write_lite
from tfdml.serving.exported.model_card import write_card
from tfdml.serving.exported.onnx_file import write_onnx
from tfdml.serving.exported.saved_model import export
from tfdml.serving.exported.saved_model_files import model_hash


def write_export(model, out, about, *, projection=None, tolerant=False, lite=None, onnx=False):
    """Writes the SavedModel of a model, and its card, to a folder that must be empty or not exist.

    Args:
        model: model of a method, which has its preprocessing.
        out: the folder.
        about: the facts of the card that the model does not say.
        projection: as of `tfdml.serving.export`.
        tolerant: as of `tfdml.serving.export`.
        lite: precision of a file for LiteRT, see `tfdml.serving.exported.lite`; None: there is none.
        onnx: whether there is a file for ONNX Runtime, too.
    """
    with whole_folder(out, "exported model") as unfinished:
        preprocessor = Preprocessor.of(model.preprocessing)
        export(model, preprocessor, unfinished, tolerant=tolerant, projection=projection)
        if lite:
            write_lite(unfinished, lite)
        if onnx:
            write_onnx(unfinished)
        written = {"sha256": model_hash(unfinished), "tolerant": tolerant, "lite": lite, "onnx": onnx}
        write_card(unfinished, {**written, **facts_of_model(model, projection), **about})


def dimension_of(model):
    """Returns the number of dimensions of a model's embedding."""
    return model(keras.KerasTensor((None, *Preprocessor.of(model.preprocessing).image_shape))).shape[-1]


def weights_of(network, backbone):
    """Returns where the initial weights of a backbone are from, and their licence, as far as is known.

    Args:
        network: `NetworkSettings`.
        backbone: the backbone, or None.
    """
    initial, unknown = network.initial_weights, "not recorded; ask the publisher of the weights"
    if network.initial_model:
        return f"those of the model {Path(network.initial_model).name}", unknown
    if not initial and backbone is not None and backbone.pretrained:
        return "those of its preset", unknown
    if not initial:
        return "random", "none needed"
    if backbone is not None and initial in backbone.shipped_weights:
        return f"{initial}, part of tfdml", "Apache-2.0"
    if initial == "imagenet":
        return f"imagenet, downloaded by {backbone.name}", unknown
    return Path(initial).name, unknown


def facts_of_model(model, projection=None):
    """Returns the facts of a card that the model says; its embedding may be projected."""
    dimension = dimension_of(model)
    return {
        "embedding": {
            "dimension": projection.dimension if projection else dimension,
            "metric": "cosine" if projection or model.normalize else "euclidean",
            "learners": model.learner_count,
            "learner_dimension": dimension // model.learner_count,
            "projection": projection.description if projection else "",
        },
        "images": model.preprocessing.get_config(),
        "versions": {"tfdml": __version__, "TensorFlow": tf.__version__, "Keras": keras.__version__},
    }
