"""Exports runs, backbones and joined models as SavedModel, LiteRT and ONNX."""

import logging
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from pipelines.dataset import Split
from pipelines.preprocessing import Preprocessing
from pipelines.preprocessor import Preprocessor
from tfdml import registry
from tfdml.console.startup import __version__
from tfdml.files.checked import whole_folder
from tfdml.methods import Features, Joined
from tfdml.neighbors.projections import principal_components
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import set_up, trained, trained_model
from tfdml.run.experiment.threshold import threshold_of
from tfdml.run.loading import ImageEmbedder
from tfdml.run.training.initial_model import check_pretrained, check_takes, initial_backbone
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.model_card import write_card
from tfdml.serving.saved_model import export


class Prefix:
    """Keeps the first dimensions of embeddings, which were trained nested, and brings these to unit length."""

    def __init__(self, size, dims):
        self.dimension = dims
        self.description = f"the first {dims} of {size} dimensions, which were trained nested"

    def __call__(self, embeddings):
        """Returns the first dimensions `[B, N]` of embeddings `[B, D]`."""
        return tf.math.l2_normalize(embeddings[:, : self.dimension], axis=-1)


class Projection:
    """Maps embeddings to their principal components, and brings these to unit length. `Projection.fit` creates it.

    With whitening it is the projection of "Negative Evidences and Co-occurrences in Image Retrieval: the Benefit of PCA
    and Whitening" (ECCV 2012): the components, `[D, N]`, are divided by the standard deviations along them.
    """

    def __init__(self, mean, components, whitened=False):
        self.mean = np.asarray(mean, np.float32)
        self.components = np.asarray(components, np.float32)
        self.description = f"principal components of {len(self.mean)} dimensions{', whitened' if whitened else ''}"

    @classmethod
    def fit(cls, embeddings, dims, whiten=False):
        """Creates the projection to so many principal components of embeddings `[N, D]`.

        With `whiten` all components get a variance of 1.
        """
        most = min(embeddings.shape[1], len(embeddings) - 1)
        if not 1 <= dims <= most:
            raise ValueError(
                f"Expected 1 to {most} dimensions, received {dims}: the embedding has {embeddings.shape[1]}, and "
                f"{len(embeddings)} images determine no more than {len(embeddings) - 1}."
            )
        mean, components, deviations = principal_components(embeddings, dims)
        if len(deviations) < dims:
            only = f"The embeddings vary in {len(deviations)} dimensions only"
            raise ValueError(f"{only}; {dims} are not possible. Choose no more than these.")
        return cls(mean, components / (deviations if whiten else 1.0), whiten)

    @property
    def dimension(self):
        """The number N of components."""
        return self.components.shape[1]

    def __call__(self, embeddings):
        """Returns the projections `[B, N]` of embeddings `[B, D]`."""
        return tf.math.l2_normalize((embeddings - self.mean) @ self.components, axis=-1)


LITE_FILE = "model.tflite"


def write_lite(path, precision):
    """Writes `model.tflite` next to a SavedModel: its signature `embed_images`, which takes pixels, not files.

    With the precision `float16` the file is half as large; with `int8` weights take a quarter, and computations use
    integers if possible. Inputs and outputs stay float32.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=["embed_images"])
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    (Path(path) / LITE_FILE).write_bytes(converter.convert())


ONNX_FILE = "model.onnx"


def import_converter():
    """Returns the modules `onnx` and `tf2onnx`; an ImportError says how to install them."""
    try:
        import onnx
        import tf2onnx
    except ImportError as error:
        raise ImportError(f"Writing ONNX needs {error.name}: pip install 'tfdml[onnx]'.") from error
    return onnx, tf2onnx


def write_onnx(path):
    """Writes `model.onnx` next to a SavedModel: its signature `embed_images`, which takes pixels, not files."""
    onnx, tf2onnx = import_converter()
    # Its functions live as long as the model does.
    model = tf.saved_model.load(str(path))
    embed = model.signatures["embed_images"]
    images = embed.structured_input_signature[1]["images"]
    call = tf.function(lambda images: embed(images=images), autograph=False)
    found, _ = tf2onnx.convert.from_function(call, [tf.TensorSpec(images.shape, images.dtype, name="images")])
    if len(found.graph.input) > 1:
        raise ValueError("The model cannot be written in ONNX, export it without: a weight of it stays an input.")
    try:
        # An operation that ONNX does not have is left as it is.
        onnx.checker.check_model(found)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"The model cannot be written in ONNX, export it without: {error}") from error
    (Path(path) / ONNX_FILE).write_bytes(found.SerializeToString())


def write_export(model, out, about, *, projection=None, tolerant=False, lite=None, onnx=False):
    """Writes the SavedModel of a model with preprocessing, and its card, to a folder that must be empty or not exist.

    `about` has the facts of the card that the model does not say. `lite` is the precision of a file for LiteRT, or
    `None`, and `onnx` says whether there is one for ONNX Runtime. See `tfdml.serving.export` for the others.
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


def _facts_of_network(network, backbone):
    """Returns the facts of a card about the network; the license of its initial weights may be unknown."""
    source, license = _weights_of(network, backbone)
    named = {"backbone": network.backbone_or_origin, "head": network.head}
    return {**named, "weights": source, "weights_license": license}


def _weights_of(network, backbone):
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
    embedder = ImageEmbedder(model)
    return {
        "embedding": {
            "dimension": projection.dimension if projection else embedder.dimension,
            "metric": "cosine" if projection else embedder.metric,
            "learners": model.learner_count,
            "learner_dimension": embedder.dimension // model.learner_count,
            "projection": projection.description if projection else "",
        },
        "images": model.preprocessing.get_config(),
        "versions": {"tfdml": __version__, "TensorFlow": tf.__version__, "Keras": keras.__version__},
    }


def export_backbone(settings, out, *, images="", data_dir="", dims=0, whiten=False, **formats):
    """Writes the SavedModel of the features of a pretrained backbone, and its card, to a folder that must not exist.

    The `Settings` say the backbone, its weights, the head, and how images are prepared. If `dims` is not 0, so many
    principal components of the features of `images`, a source of `ImageList`, are kept; `whiten` gives them the same
    variance. The formats are `tolerant`, `lite` and `onnx` of `write_export`.
    """
    set_up(settings.run)
    model, projection = features_of(settings), None
    if dims:
        listed = ImageList.of(images, data_dir=data_dir, split="train")
        contents = np.array(listed.paths, object) if listed.contents is None else listed.contents
        split = Split(contents, np.zeros(len(listed), np.int64))
        projection = Projection.fit(ImageEmbedder(model).embed_split(split), dims, whiten)
    about = {"model": "pretrained", "method": "features", **_facts_of_network(settings.network, model.backbone)}
    about |= {"data": {"dataset": None, "projected": images or None}, "scores": {}}
    write_export(model, out, about, projection=projection, **formats)


def features_of(settings):
    """Returns the model of the features of a pretrained backbone, with its preprocessing, see `export_backbone`."""
    network = settings.network
    backbone = initial_backbone(network, tell=True)
    check_pretrained(backbone, network)
    model = Features(backbone, head=registry.create("head", network.head))
    about = {"transform": settings.images.test_transform, "shrink": settings.images.shrink_decoding}
    model.preprocessing = Preprocessing.of(model, settings.images.image_size, **about)
    check_takes(backbone, model.preprocessing.image_size, network.backbone)
    model.call_on((1, *model.preprocessing.image_shape))
    # More than the numbers of a norm or of a pooling.
    if any(len(weight.shape) > 1 for weight in model.features.weights):
        raise ValueError(
            f"--head={network.head} has layers with random weights, which need training. Give one without, such as "
            "--head=\"linear(pooling='gem')\"."
        )
    return model


# Of a result, what is no score.
NO_SCORES = ("queries", "step", "blend")


def export_run(run_dir, which, out, *, dims=0, whiten=False, changes=(), **formats):
    """Writes the SavedModel of the `best` or `final` model of a run, and its card, to a folder that must not exist.

    If `dims` is not 0, so many dimensions are kept: the first ones, if these were trained nested, and otherwise
    principal components of the training embeddings; `whiten` keeps components in any case, and gives them the same
    variance. `changes` maps settings to new values, such as `data_dir`, the folder of the dataset, see `trained`. The
    formats are `tolerant`, `lite` and `onnx` of `write_export`.
    """
    model = trained_model(run_dir, which, changes)
    projection = _projection(model, run_dir, which, dims, whiten, changes) if dims else None
    about = facts_of_run(RunDirectory(run_dir), which, model)
    # A threshold of the run's embeddings means nothing for other dimensions.
    if not dims:
        about["run_sha256"] = sha256_of(RunDirectory(run_dir), which)
        if threshold := threshold_of(run_dir, which):
            about["threshold"] = threshold.fitted
    write_export(model, out, about, projection=projection, **formats)


def images_of(run_dir, data_dir=""):
    """Returns the images of a run as `tfdml.index` takes them, `images` and `data_dir`, which may have moved."""
    data = RunDirectory(run_dir).settings().data
    root = data_dir or data.data_dir
    # A folder of photos needs no dataset, and all of it is worth an index.
    if root and data.dataset.startswith(("folder", "photos")):
        return {"images": root, "data_dir": ""}
    return {"images": data.dataset, "data_dir": root}


def _projection(model, run_dir, which, dims, whiten, changes):
    """Returns what keeps some dimensions of the embedding: its first ones, or its principal components."""
    nested = ()
    # If there are several learners, each is nested, and not their concatenation.
    if model.learner_count == 1:
        # The loss is not trained, so that any number of classes will do.
        loss = registry.create("loss", RunDirectory(run_dir).settings().batches.loss, classes=2)
        nested = hooks_of(loss).nested_dims
    if dims in nested and not whiten:
        return Prefix(ImageEmbedder(model).dimension, dims)
    if nested and not whiten:
        known = ", ".join(map(str, nested))
        logging.getLogger(__name__).warning(
            "--dims=%d is none of %s, trained nested: it projects to principal components.", dims, known
        )
    experiment, model = trained(run_dir, which, changes, test_only=False)
    return Projection.fit(experiment.embed(model, experiment.splits.train), dims, whiten)


def facts_of_run(run, which, model):
    """Returns the facts of a card that a `RunDirectory` says, of its `best` or `final` model."""
    settings, result = run.settings(), run.result() or {}
    found = result.get("best" if which == "best" else "metrics", {})
    scores = {name: value for name, value in found.items() if isinstance(value, float) and name not in NO_SCORES}
    members = f"{settings.run.members} members of " if settings.run.members else ""
    return {
        "model": which,
        "method": f"{members}{settings.network.method}",
        **_facts_of_network(settings.network, model.backbone),
        "data": {
            "dataset": settings.data.dataset,
            "protocol": settings.evaluation.protocol,
            "queries": found.get("queries"),
            "selected_on": result.get("selected_on") if which == "best" else None,
        },
        "scores": scores,
        "intervals": result.get("intervals", {}) if which == "best" else {},
    }


def export_joined(run_dir, which, settings, out, **formats):
    """Writes the SavedModel of the features of a backbone and a model on them, of a run on stored features.

    The `Settings` say the backbone that the features are from, and other arguments are those of `export_run`.
    """
    modules = {"import_modules": list(settings.run.import_modules)} if settings.run.import_modules else {}
    trained = trained_model(run_dir, which, modules)
    model = Joined(features_of(settings), trained)
    model.call_on((1, *model.preprocessing.image_shape))
    about = facts_of_run(RunDirectory(run_dir), which, trained)
    about |= _facts_of_network(settings.network, model.features.backbone)
    write_export(model, out, about, **formats)
