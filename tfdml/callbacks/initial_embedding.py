"""`InitialEmbedding`: training begins with the directions in which features tell images apart."""

import contextlib
import dataclasses
from typing import Literal

import keras
import numpy as np
from keras import ops

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.evaluation.embedder import Embedder, ImageBatches
from tfdml.layers.feature_embedding import FeatureEmbedding
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.linear_discriminants import linear_discriminants
from tfdml.neighbors.principal_components import principal_components
from tfdml.registry.annotations import Labels, StepCounter, Verbosity
from tfdml.runtime.keras_internals import layers_of

KINDS = ("pca", "pca_whitened", "lda")
# The part of the mean variance of the components that whitening adds to each, so that what hardly varies, and in a few
# images by chance, does not count as much as all else.
SHRINKAGE = 0.1


class InitialEmbedding(keras.callbacks.Callback):
    """Gives the linear layers of an embedding principal components or discriminants of features, before the first step.

    The untrained model then embeds images as the pretrained network tells them apart, in place of random directions.
    Several heads on the same features share the directions out in turns, so that each learner has others; each level
    of a network has its own. Where features vary in fewer dimensions than the embedding has, the other dimensions keep
    their random directions. Weights are as large as they were, so that the learning rate means the same.

    Example: `model.fit(batches, callbacks=[InitialEmbedding(images, labels, kind="lda")])`.

    Args:
        images: training images, preprocessed as in evaluation: batches or an array. Some thousand tell enough.
        labels: `[N]` class numbers of the images, for `lda`.
        kind: `pca`; or `pca_whitened`: components of variance v are divided by sqrt(v + m / 10), m the mean variance of
            all, so that all but the smallest have about the same variance; or `lda`, linear discriminant analysis:
            directions in which classes differ most beside how much images of a class do, where a variance v within
            classes counts as v + 0.3 m, m the mean of these in all directions.
        count: number of images; None: as many as `labels`, or all of `images`.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        verbose: verbosity of the pass over the images, see `tfdml.evaluation.embedder.Embedder`.
    """

    def __init__(
        self,
        images: ImageBatches,
        labels: Labels | None = None,
        *,
        kind: Literal["pca", "pca_whitened", "lda"] = "pca_whitened",
        count: int | None = None,
        step: StepCounter | None = None,
        verbose: Verbosity = 0,
    ):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"Expected kind to be one of {', '.join(KINDS)}; received {kind!r}.")
        if kind == "lda" and labels is None:
            raise ValueError("InitialEmbedding(kind='lda') tells classes apart: give the labels of the images.")
        self.images, self.labels, self.kind, self.verbose = images, labels, kind, verbose
        self.count = len(labels) if count is None and labels is not None else count
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
        found = Embedder(seen, verbose=self.verbose, of="training images")(self.images, self.count)
        check_finite(found)
        widths = [part.kernel.shape[0] for part in parts]
        # One layer for several learners has a row for each.
        inputs = [found.reshape(-1, widths[0])] if len(parts) == 1 else np.split(found, np.cumsum(widths)[:-1], axis=1)
        for part, features in zip(parts, inputs, strict=True):
            kernel = self._kernel(features, part)
            part.kernel.assign(kernel)
            part.bias.assign(-features.mean(axis=0) @ kernel)

    def _kernel(self, features, part):
        """The kernel `[c, d]` of a linear layer for its inputs `[N, c]`."""
        before = ops.convert_to_numpy(part.kernel.value).astype(np.float32)
        directions = self._directions(features, part.components)
        known = part.components < directions.shape[1]
        kernel = before.copy()
        kernel[:, known] = directions[:, part.components[known]]
        # The others vary as the last component does.
        smallest = (features @ kernel[:, known]).std(axis=0).min()
        others = (features @ before[:, ~known]).std(axis=0)
        kernel[:, ~known] *= smallest / np.maximum(others, np.finfo(np.float32).tiny)
        return kernel * np.sqrt(np.square(before).sum() / np.square(kernel).sum())

    def _directions(self, features, components):
        """Directions `[c, n]`, of which a layer takes those at `components`; features may vary in fewer."""
        count = max(components) + 1
        if self.kind == "lda":
            # Inputs of one layer for several learners are as many to an image.
            labels = np.repeat(self.labels[: self.count], len(features) // self.count)
            return linear_discriminants(features, labels, count)
        _, directions, deviations = principal_components(features, count)
        if not len(deviations):
            raise ValueError(f"{len(features)} training images have all the same features, which have no components.")
        if self.kind == "pca":
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
    found = {}

    def recording(layer):
        call = layer.call

        def recorded(*arguments, **keywords):
            found[id(layer)] = call(*arguments, **keywords)
            return found[id(layer)]

        return recorded

    for layer in layers:
        layer.call = recording(layer)
    outputs = []
    try:
        yield outputs
        outputs.extend(ops.cast(found[id(layer)], "float32") for layer in layers)
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
