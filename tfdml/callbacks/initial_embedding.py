"""`InitialEmbedding`: training starts from the directions in which pretrained features tell images apart."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Literal

import keras
import numpy as np
from keras import ops

from tfdml.callbacks.base import steps_taken
from tfdml.evaluation import evaluate
from tfdml.evaluation.embedder import Embedder, ImageBatches
from tfdml.layers.embedding import FeatureEmbedding
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import unit_length
from tfdml.neighbors.projections import linear_discriminants, principal_components, within_class_whitened_components
from tfdml.registry.arguments import Labels, StepCounter, Verbosity
from tfdml.registry.fields import Declared
from tfdml.runtime.keras_internals import layers_of

# Those that need class labels, and all that `auto` compares. The first of equally good kinds is chosen.
OF_CLASSES = {"wccn": within_class_whitened_components, "lda": linear_discriminants}
COMPARED = (*OF_CLASSES, "pca_whitened", "pca")
# `auto` holds each training class out once, in this many turns.
TURNS = 3
# The part of the mean variance of the components that whitening adds to each, so that what hardly varies, and in a few
# images by chance, does not count as much as all else.
SHRINKAGE = 0.1


class InitialEmbedding(Declared, keras.callbacks.Callback):
    """Callback that initializes the linear layers of an embedding from features, before the first step.

    The untrained model then tells images apart as well as the pretrained network does, instead of projecting features
    on random directions. Several heads on the same features take turns in choosing directions, so each learner has
    different ones. Each level of a network has its own. If the embedding has more dimensions than the features vary in,
    the other dimensions keep their random directions. The weights keep their norm, so a learning rate has the same
    effect as before.

    Example: `model.fit(batches, callbacks=[InitialEmbedding(images, labels, kind="auto")])`.

    Args:
        images: Training images, preprocessed as in evaluation: batches or an array. A few thousand are enough.
        labels: `[N]` integer class labels of the images. Required for `lda`, `wccn` and `auto`.
        kind: Which directions to use. `pca`: principal components. `pca_whitened`: principal components, of which one
            with variance v is divided by sqrt(v + m / 10), where m is their mean variance. `lda`: linear discriminants,
            which maximize the scatter between class means relative to the variance within classes. C classes have
            C - 1 of them, followed by components of what remains. `wccn`: principal components after whitening within
            classes (within-class covariance normalization). For `lda` and `wccn`, a variance v within classes counts as
            v + 0.3 m, where m is the mean variance within classes. `auto`: the one of these with the highest Recall@1
            on training classes that it was not fitted to. Defaults to `pca_whitened`.
        count: Number of images. If `None`, the number of `labels`, or all of `images`.
        step: Function that returns the number of steps taken. If `None`, the optimizer's `iterations`.
        verbose: Verbosity of the pass over the images, see `tfdml.evaluation.embedder.Embedder`.
        on_choice: Function that `auto` calls with the chosen kind and a dictionary from each kind to its Recall@1.
    """

    def __init__(
        self,
        images: ImageBatches,
        labels: Labels | None = None,
        *,
        kind: Literal["pca", "pca_whitened", "lda", "wccn", "auto"] = "pca_whitened",
        count: int | None = None,
        step: StepCounter | None = None,
        verbose: Verbosity = 0,
        on_choice: Callable[[str, dict[str, float]], None] | None = None,
    ):
        super().__init__()
        if kind in (*OF_CLASSES, "auto") and labels is None:
            raise ValueError(f"InitialEmbedding(kind={kind!r}) needs class labels. Pass the labels of the images.")
        self.images, self.labels, self.kind, self.verbose = images, labels, kind, verbose
        self.count = len(labels) if count is None and labels is not None else count
        self.on_choice = on_choice
        self._step = step or (lambda: steps_taken(self.model))

    @staticmethod
    def suits(model: keras.Model) -> bool:
        """Whether the embedding of a model has linear layers behind pooled features."""
        return bool(_embedding_layers(model))

    def on_train_begin(self, logs=None):
        # A run that goes on has its embedding.
        if self._step() == 0:
            self.apply(self.model)

    def apply(self, model: keras.Model) -> None:
        """Gives a model, which has seen an image, its first embedding."""
        parts = _linear_parts(model)
        with model.distribute_strategy.scope():
            seen = _LinearInputs(model, [part.before for part in parts])
        inputs = Embedder(seen, verbose=self.verbose, of="training images")(self.images, self.count)
        check_finite(inputs)
        labels = None if self.labels is None else np.asarray(self.labels)[: len(inputs)]
        kind = self._choose(parts, inputs, labels) if self.kind == "auto" else self.kind
        for part, (kernel, mean) in zip(parts, _fitted(parts, inputs, labels, kind), strict=True):
            part.kernel.assign(kernel)
            part.bias.assign(-mean @ kernel)

    def _choose(self, parts, inputs, labels):
        """Returns the kind with the highest Recall@1 on training classes that it was not fitted to."""
        classes, sizes = np.unique(labels, return_counts=True)
        # A class with a single image has no neighbor to find.
        classes = np.random.default_rng(0).permutation(classes[sizes > 1])
        # With a single held-out class every neighbor would be right.
        turns = min(TURNS, len(classes) // 2)
        if turns < 2:
            return COMPARED[0] if len(classes) else "pca_whitened"
        recalls = dict.fromkeys(COMPARED, 0.0)
        for turn in range(turns):
            held_out = np.isin(labels, classes[turn::turns])
            rest = ~held_out
            for kind in COMPARED:
                fitted = _fitted(parts, inputs[rest], labels[rest], kind)
                layers = zip(_by_part(parts, inputs[held_out]), fitted, strict=True)
                outputs = [unit_length((rows - mean) @ kernel) for rows, (kernel, mean) in layers]
                embeddings = np.concatenate([rows.reshape(np.sum(held_out), -1) for rows in outputs], axis=1)
                recalls[kind] += evaluate(embeddings, labels[held_out], ("recall_at_1",))["recall_at_1"] / turns
        chosen = max(recalls, key=recalls.get)
        if self.on_choice is not None:
            self.on_choice(chosen, recalls)
        return chosen


def _by_part(parts, inputs):
    """Returns the inputs `[rows, c]` of each linear layer. A layer that L learners share has L rows per image."""
    widths = [part.kernel.shape[0] for part in parts]
    return [inputs.reshape(-1, widths[0])] if len(parts) == 1 else np.split(inputs, np.cumsum(widths)[:-1], axis=1)


def _fitted(parts, inputs, labels, kind):
    """Returns the kernel of each linear layer for inputs `[N, n]`, and the mean of what the layer receives."""
    fitted = []
    for part, rows in zip(parts, _by_part(parts, inputs), strict=True):
        of_rows = None if labels is None else np.repeat(labels, len(rows) // len(inputs))
        fitted.append((_kernel(rows, part, kind, of_rows), rows.mean(axis=0)))
    return fitted


def _kernel(features, part, kind, labels):
    """Returns the kernel `[c, d]` of a linear layer for its inputs `[N, c]`."""
    before = ops.convert_to_numpy(part.kernel.value).astype(np.float32)
    directions = _directions(features, part.components, kind, labels)
    directed = part.components < directions.shape[1]
    kernel = before.copy()
    kernel[:, directed] = directions[:, part.components[directed]]
    # The others vary as the last component does.
    smallest = (features @ kernel[:, directed]).std(axis=0).min()
    others = (features @ before[:, ~directed]).std(axis=0)
    kernel[:, ~directed] *= smallest / np.maximum(others, np.finfo(np.float32).tiny)
    return kernel * np.sqrt(np.square(before).sum() / np.square(kernel).sum())


def _directions(features, components, kind, labels):
    """Returns directions `[c, n]`, of which a layer uses those at `components`. Features may vary in fewer."""
    count = max(components) + 1
    if kind in OF_CLASSES:
        return OF_CLASSES[kind](features, labels, count)
    _, directions, deviations = principal_components(features, count)
    if not len(deviations):
        raise ValueError(f"{len(features)} training images have all the same features, which have no components.")
    if kind == "pca":
        return directions
    variances = np.square(deviations)
    mean = variances[components[components < len(deviations)]].mean()
    return directions / np.sqrt(variances + SHRINKAGE * mean)


class _LinearInputs(keras.Model):
    """From images to what layers `before` the linear ones give, side by side `[B, n]`."""

    def __init__(self, model, before):
        super().__init__(name="linear_inputs")
        self.model, self.before = model, before

    def call(self, images):
        with _recorded(self.before) as found:
            self.model(images, training=False)
        return ops.concatenate([ops.reshape(each, (ops.shape(images)[0], -1)) for each in found], axis=1)


@contextlib.contextmanager
def _recorded(layers):
    """A context that gives a list of what layers return, in their order."""
    output_of = {}

    def recording(layer):
        call = layer.call

        def recorded(*arguments, **keywords):
            output_of[id(layer)] = call(*arguments, **keywords)
            return output_of[id(layer)]

        return recorded

    for layer in layers:
        layer.call = recording(layer)
    outputs = []
    try:
        yield outputs
        outputs.extend(ops.cast(output_of[id(layer)], "float32") for layer in layers)
    finally:
        for layer in layers:
            del layer.call


def _embedding_layers(model):
    return [layer for layer in layers_of(model) if isinstance(layer, FeatureEmbedding)]


def _linear_parts(model):
    """The `LinearPart` of each linear layer of a model's embedding; several layers share components out."""
    layers = _embedding_layers(model)
    if not layers:
        raise ValueError(
            f"Expected a model with linear layers behind pooled features, such as tfdml.Single; {model.name}, a "
            f"{type(model).__name__}, has none."
        )
    if not model.built:
        raise ValueError("InitialEmbedding needs a model with weights: call it on a batch before it is trained.")
    return [
        dataclasses.replace(part, components=part.components * len(layers) + place)
        for place, layer in enumerate(layers)
        for part in layer.linear_parts()
    ]
