"""Exports runs, backbones and joined models as SavedModel, LiteRT and ONNX files."""

import logging
import re
from pathlib import Path

import keras
import numpy as np

from pipelines.dataset import Split
from pipelines.operations import tf
from pipelines.preprocessing import Preprocessing
from pipelines.preprocessor import Preprocessor
from tfdml import registry
from tfdml.console.startup import __version__
from tfdml.files.checked import whole_folder
from tfdml.methods import Features, Joined, TwoTowers
from tfdml.neighbors.projections import principal_components
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import set_up, trained, trained_model
from tfdml.run.experiment.threshold import ENTRIES, threshold_of
from tfdml.run.loading import ImageEmbedder
from tfdml.run.training.initial_model import check_pretrained, check_takes, initial_backbone
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.model_card import write_card
from tfdml.serving.saved_model import export


class Prefix:
    """Keeps the first dimensions of embeddings that were trained nested, and L2-normalizes them."""

    def __init__(self, size, dims):
        self.dimension = dims
        self.description = f"the first {dims} of {size} dimensions (trained as nested embeddings)"

    def __call__(self, embeddings):
        """Returns the first dimensions `[B, N]` of embeddings `[B, D]`."""
        return tf.math.l2_normalize(embeddings[:, : self.dimension], axis=-1)


class Projection:
    """Projects embeddings to their principal components and L2-normalizes the result. Create it with `Projection.fit`.

    With whitening, it is the projection of "Negative Evidences and Co-occurrences in Image Retrieval: the Benefit of
    PCA and Whitening" (ECCV 2012): the components, `[D, N]`, are divided by the standard deviations along them.
    """

    def __init__(self, mean, components, whitened=False):
        self.mean = np.asarray(mean, np.float32)
        self.components = np.asarray(components, np.float32)
        self.description = f"principal components of {len(self.mean)} dimensions{', whitened' if whitened else ''}"

    @classmethod
    def fit(cls, embeddings, dims, whiten=False):
        """Creates the projection to the first `dims` principal components of embeddings `[N, D]`.

        With `whiten=True`, all components get a variance of 1.
        """
        most = min(embeddings.shape[1], len(embeddings) - 1)
        if not 1 <= dims <= most:
            raise ValueError(
                f"The embedding can be projected to 1 to {most} dimensions, because it has {embeddings.shape[1]} and "
                f"{len(embeddings)} images determine at most {len(embeddings) - 1}. Received: {dims}."
            )
        mean, components, deviations = principal_components(embeddings, dims)
        if len(deviations) < dims:
            only = f"The embeddings vary in only {len(deviations)} dimensions"
            raise ValueError(f"{only}, so they cannot be projected to {dims}. Use {len(deviations)} or fewer.")
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
    """Writes `model.tflite` next to a SavedModel: its signature `embed_images`, which accepts pixels instead of files.

    With the precision `float16`, the file is half as large. With `int8`, weights need a quarter of the space, and
    computations use integers if possible. Inputs and outputs stay float32.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=["embed_images"])
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        content = converter.convert()
    except Exception as error:
        # The converter has no public class of errors. Its message has a line for each operation that is missing.
        missing = ", ".join(sorted(set(re.findall(r"'tf\.(\w+)' op", str(error)))))
        if not missing:
            raise
        raise ValueError(
            f"The model cannot be exported to LiteRT, which does not have {missing}. Export it without --lite."
        ) from error
    (Path(path) / LITE_FILE).write_bytes(content)


ONNX_FILE = "model.onnx"


def import_converter():
    """Returns the modules `onnx` and `tf2onnx`. If one is missing, the ImportError shows how to install it."""
    try:
        import onnx
        import tf2onnx
    except ImportError as error:
        raise ImportError(f"ONNX export needs {error.name}: pip install 'tfdml[onnx]'.") from error
    return onnx, tf2onnx


def _complementary_error(graph, node, name, arguments):
    """Replaces a node of TensorFlow's `Erfc`, which tf2onnx does not know, by 1 - `Erf`."""
    onnx, _ = import_converter()
    about = {"shapes": node.output_shapes, "dtypes": node.output_dtypes}
    one = graph.make_const(f"{name}_one", np.ones((), onnx.helper.tensor_dtype_to_np_dtype(node.output_dtypes[0])))
    error = graph.make_node("Erf", node.input, **about)
    graph.remove_node(name)
    graph.make_node("Sub", [one.output[0], error.output[0]], outputs=node.output, **about)


def write_onnx(path):
    """Writes `model.onnx` next to a SavedModel: its signature `embed_images`, which accepts pixels instead of files."""
    onnx, tf2onnx = import_converter()
    # Keep a reference to the model, because its functions are only valid as long as it exists.
    model = tf.saved_model.load(str(path))
    embed = model.signatures["embed_images"]
    images = embed.structured_input_signature[1]["images"]
    captured = embed.captured_inputs

    def call(images):
        # Tensors that are not variables, such as the numbers of positions, would remain graph inputs.
        embed.set_external_captures(
            [each if each.dtype == tf.resource else tf.constant(each.numpy()) for each in captured]
        )
        return embed(images=images)

    found, _ = tf2onnx.convert.from_function(
        tf.function(call, autograph=False),
        [tf.TensorSpec(images.shape, images.dtype, name="images")],
        custom_op_handlers={"Erfc": (_complementary_error, [])},
    )
    if len(found.graph.input) > 1:
        raise ValueError(
            "The model cannot be exported to ONNX, because one of its weights would remain a graph input. Export it "
            "without ONNX."
        )
    try:
        # The converter leaves operations that ONNX does not have as they are, so check its result.
        onnx.checker.check_model(found)
    except onnx.checker.ValidationError as error:
        raise ValueError(
            f"The model cannot be exported to ONNX. Export it without ONNX. The checker reported: {error}"
        ) from error
    (Path(path) / ONNX_FILE).write_bytes(found.SerializeToString())


def write_export(model, out, about, *, projection=None, tolerant=False, lite=None, onnx=False):
    """Writes the SavedModel of a model with preprocessing, and its card, to a folder that is empty or does not exist.

    `about` contains the facts for the card that the model does not know. `lite` is the precision of the LiteRT file; if
    `None`, no LiteRT file is written. `onnx` adds a file for ONNX Runtime. For the other arguments, see
    `tfdml.serving.export`.
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
    """Returns the card's facts about `NetworkSettings` and a backbone. The license of the weights may be unknown."""
    source, license = _weights_of(network, backbone)
    named = {"backbone": network.backbone_or_origin, "head": network.head}
    return {**named, "weights": source, "weights_license": license}


def _weights_of(network, backbone):
    initial, unknown = network.initial_weights, "not recorded; ask the publisher of the weights"
    if network.initial_model:
        return f"from the model {Path(network.initial_model).name}", unknown
    if not initial and backbone is not None and backbone.pretrained:
        return "from its preset", unknown
    if not initial:
        return "random", "none needed"
    if backbone is not None and initial in backbone.shipped_weights:
        return f"{initial}, part of tfdml", "Apache-2.0"
    if initial == "imagenet":
        return f"imagenet, downloaded by {backbone.name}", unknown
    return Path(initial).name, unknown


def facts_of_model(model, projection=None):
    """Returns the card's facts about a model, with an embedding that may be projected."""
    embedder = ImageEmbedder(model)
    texts = {"texts": _facts_of_texts(model)} if isinstance(model, TwoTowers) else {}
    return {
        **texts,
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


def _facts_of_texts(model):
    tokenizer = model.text.tokenizer
    accepted = {"tokens": tokenizer.length, "strings": tokenizer.is_portable}
    return {**accepted, "temperature": model.temperature, "bias": model.bias}


def export_backbone(settings, out, *, images="", data_dir="", dims=0, whiten=False, **formats):
    """Writes the SavedModel of a pretrained backbone's features, and its card, to a folder that does not exist.

    The `Settings` specify the backbone, its weights, the head, and how images are prepared. If `dims` is not 0, the
    features are projected to that many principal components, which are computed from `images`, a source of `ImageList`.
    `whiten` gives all of them the same variance. The formats are `tolerant`, `lite` and `onnx` of `write_export`.
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
    """Returns the model of a pretrained backbone's features, with its preprocessing; see `export_backbone`."""
    network = settings.network
    backbone = initial_backbone(network, tell=True)
    check_pretrained(backbone, network)
    if backbone.preset:
        text = f"keras_hub(preset={backbone.preset!r})"
        model = TwoTowers(backbone, text, projection=False, head=registry.create("head", network.head))
    else:
        model = Features(backbone, head=registry.create("head", network.head))
    about = {"transform": settings.images.test_transform, "shrink": settings.images.shrink_decoding}
    model.preprocessing = Preprocessing.of(model, settings.images.image_size, **about)
    check_takes(backbone, model.preprocessing.image_size, network.backbone)
    model.call_on((1, *model.preprocessing.image_shape))
    # Normalization and pooling have only vectors and scalars, so a matrix is a layer that needs training.
    (layer,) = model.embedding_layers()
    if any(len(weight.shape) > 1 for weight in layer.weights):
        raise ValueError(
            f"--head={network.head} has layers with random weights, which need training. Use a head without such "
            "layers, for example --head=\"linear(pooling='gem')\"."
        )
    return model


# Numbers in a result that are not scores.
NO_SCORES = ("queries", "step", "blend")


def export_run(run_dir, which, out, *, dims=0, whiten=False, changes=(), **formats):
    """Writes the SavedModel of a run's `best` or `final` model, and its card, to a folder that does not exist.

    If `dims` is not 0, the embedding is reduced to that many dimensions. If the embedding was trained nested, these are
    its first dimensions, and otherwise principal components of the training embeddings. `whiten` always uses principal
    components and gives them the same variance. `changes` maps settings to new values, such as `data_dir`, the folder
    of the dataset; see `trained`. The formats are `tolerant`, `lite` and `onnx` of `write_export`.
    """
    model = trained_model(run_dir, which, changes)
    projection = _projection(model, run_dir, which, dims, whiten, changes) if dims else None
    about = facts_of_run(RunDirectory(run_dir), which, model)
    if templates := RunDirectory(run_dir).settings().data.captions:
        about["templates"] = templates
    # The run's threshold is not valid for an embedding with other dimensions.
    if not dims:
        about["run_sha256"] = sha256_of(RunDirectory(run_dir), which)
        for queries, entry in ENTRIES.items():
            if threshold := threshold_of(run_dir, which, queries=queries):
                about[entry] = threshold.fitted
    write_export(model, out, about, projection=projection, **formats)


def images_of(run_dir, data_dir=""):
    """Returns `images` and `data_dir` of a run, which may have moved, in the form that `tfdml.index` expects."""
    data = RunDirectory(run_dir).settings().data
    root = data_dir or data.data_dir
    # A folder of photos can be indexed without a dataset, and then with all of its images.
    if root and data.dataset.startswith(("folder", "photos")):
        return {"images": root, "data_dir": ""}
    return {"images": data.dataset, "data_dir": root}


def _projection(model, run_dir, which, dims, whiten, changes):
    """Returns the `Prefix` or the `Projection` that reduces the embedding to `dims` dimensions."""
    nested = ()
    # If there are several learners, each of them is nested, but their concatenation is not.
    if model.learner_count == 1:
        # The loss is not trained, so any number of classes works.
        loss = registry.create("loss", RunDirectory(run_dir).settings().batches.loss, classes=2, teacher_dims=2)
        nested = hooks_of(loss).nested_dims
    if dims in nested and not whiten:
        return Prefix(ImageEmbedder(model).dimension, dims)
    if nested and not whiten:
        known = ", ".join(map(str, nested))
        logging.getLogger(__name__).warning(
            "--dims=%d is not one of the nested sizes that were trained (%s), so the embedding is projected to "
            "principal components.",
            dims,
            known,
        )
    experiment, model = trained(run_dir, which, changes, test_only=False)
    return Projection.fit(experiment.embed(model, experiment.splits.train), dims, whiten)


def facts_of_run(run, which, model):
    """Returns the card's facts about the `best` or `final` model of a `RunDirectory`."""
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
    """Writes one SavedModel of a backbone's features and the model of a run that was trained on stored features.

    The `Settings` specify the backbone that computed the features. For the other arguments, see `export_run`.
    """
    modules = {"import_modules": list(settings.run.import_modules)} if settings.run.import_modules else {}
    trained = trained_model(run_dir, which, modules)
    model = Joined(features_of(settings), trained)
    model.call_on((1, *model.preprocessing.image_shape))
    about = facts_of_run(RunDirectory(run_dir), which, trained)
    about |= _facts_of_network(settings.network, model.features.backbone)
    write_export(model, out, about, **formats)
