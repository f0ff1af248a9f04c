"""`InitialEmbedding`: initializes an embedding with the directions in which pretrained features differ most."""

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
from tfdml.runtime.backends import scope_of
from tfdml.runtime.keras_internals import layers_of

# The kinds that need class labels, and all kinds that `auto` compares. Among equally good kinds, it chooses the first.
OF_CLASSES = {"wccn": within_class_whitened_components, "lda": linear_discriminants}
COMPARED = (*OF_CLASSES, "pca_whitened", "pca")
# Number of folds of the cross-validation in which `auto` holds out each training class once.
TURNS = 3
# Whitening adds this fraction of the mean variance to the variance of each component. Without it, components that vary
# only by chance in a few images would count as much as all others.
SHRINKAGE = 0.1


class InitialEmbedding(Declared, keras.callbacks.Callback):
    """Callback that initializes the linear layers of an embedding from pretrained features, before the first step.

    Use it with a pretrained backbone. The initial embedding then distinguishes images about as well as the pretrained
    network does, instead of projecting its features on random directions. If several heads use the same features, they
    choose directions in turn, so that learners differ. Each feature level has its own directions. If the
    embedding has more dimensions than the features vary in, the other dimensions keep their random directions. The
    weights keep their norm, so a learning rate has the same effect as with random weights.

    Args:
        images: Training images, preprocessed as in evaluation: batches or an array. A few thousand are enough.
        labels: `[N]` integer class labels of the images. Required for `"lda"`, `"wccn"` and `"auto"`. Defaults to
            `None`.
        kind: Which directions to use. Defaults to `"pca_whitened"`.

            - `"pca"`: principal components.
            - `"pca_whitened"`: principal components. Each is divided by sqrt(v + m / 10), where v is its variance and m
              the mean variance of all components.
            - `"lda"`: linear discriminants, which maximize the scatter between class means relative to the variance
              within classes. C classes have C - 1 of them. The principal components of the remaining features follow.
            - `"wccn"`: principal components after whitening within classes (within-class covariance normalization).
            - `"auto"`: the kind with the highest Recall@1 on training classes that it was not fitted to.

            For `"lda"` and `"wccn"`, a variance v within classes counts as v + 0.3 m, where m is the mean variance
            within classes.
        count: Integer or `None`. Number of images. If `None`, it is the number of `labels`, or, without labels, all of
            `images`. Defaults to `None`.
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.
        verbose: Verbosity of the pass over the images, see `tfdml.evaluation.embedder.Embedder`. Defaults to `0`.
        on_choice: Function that `"auto"` calls with the chosen kind and a dictionary from each kind to its Recall@1, or
            `None`. Defaults to `None`.

    Raises:
        ValueError: If `kind` needs labels and none are passed, if the model has no linear layer behind pooled features,
            or if all training images have the same features.

    Example:

    ```python
    labels = np.repeat(np.arange(4), 4)
    images = np.random.uniform(-2, 2, (16, 16, 16, 3))
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=4)
    model.compile("adam", "triplet")
    initial = tfdml.callbacks.InitialEmbedding(images, labels, kind="lda")
    history = model.fit(images, labels, callbacks=[initial], verbose=0)
    initial.suits(model)  # True
    ```
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
            raise ValueError(
                f"InitialEmbedding(kind={kind!r}) needs class labels. Pass the labels of the images, or use "
                "kind='pca_whitened'."
            )
        self.images, self.labels, self.kind, self.verbose = images, labels, kind, verbose
        self.count = len(labels) if count is None and labels is not None else count
        self.on_choice = on_choice
        self._step = step or (lambda: steps_taken(self.model))

    @staticmethod
    def suits(model: keras.Model) -> bool:
        """Returns whether the embedding of a model has linear layers behind pooled features.

        Args:
            model: Keras model.

        Returns:
            Boolean. If it is `False`, this callback cannot initialize the model.
        """
        return bool(_embedding_layers(model))

    def on_train_begin(self, logs=None):
        # A resumed run already has its embedding.
        if self._step() == 0:
            self.apply(self.model)

    def apply(self, model: keras.Model) -> None:
        """Initializes the linear layers of a model.

        Args:
            model: Keras model that has its weights because it was built or called on a batch.
        """
        parts = _linear_parts(model)
        with scope_of(model):
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
        # An image that is alone in its class has no neighbor to find.
        classes = np.random.default_rng(0).permutation(classes[sizes > 1])
        # If a fold held out only one class, every neighbor would be correct.
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
    """Returns the inputs `[rows, c]` of each linear layer. A layer shared by L learners has L rows per image."""
    widths = [part.kernel.shape[0] for part in parts]
    return [inputs.reshape(-1, widths[0])] if len(parts) == 1 else np.split(inputs, np.cumsum(widths)[:-1], axis=1)


def _fitted(parts, inputs, labels, kind):
    """Returns the kernel and the mean input of each linear layer for the concatenated inputs `[N, n]`."""
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
    if not directed.any():
        return before
    kernel = before.copy()
    kernel[:, directed] = directions[:, part.components[directed]]
    # Scale the random directions so that they vary as much as the last component.
    smallest = (features @ kernel[:, directed]).std(axis=0).min()
    others = (features @ before[:, ~directed]).std(axis=0)
    kernel[:, ~directed] *= smallest / np.maximum(others, np.finfo(np.float32).tiny)
    return kernel * np.sqrt(np.square(before).sum() / np.square(kernel).sum())


def _directions(features, components, kind, labels):
    """Returns directions `[c, n]`. The layer uses those with the indices `components`; n may be smaller than needed."""
    count = max(components) + 1
    if kind in OF_CLASSES:
        return OF_CLASSES[kind](features, labels, count)
    _, directions, deviations = principal_components(features, count)
    if not len(deviations):
        raise ValueError(
            f"All {len(features)} training images have the same features, so they differ in no direction. "
            "Check that the images differ and that the weights of the backbone are loaded."
        )
    if kind == "pca":
        return directions
    variances = np.square(deviations)
    used = components[components < len(deviations)]
    mean = variances[used].mean() if len(used) else 0.0
    return directions / np.sqrt(variances + SHRINKAGE * mean)


class _LinearInputs(keras.Model):
    """Computes the outputs of the layers `before` the linear layers, concatenated to `[B, n]`."""

    def __init__(self, model, before):
        super().__init__(name="linear_inputs")
        self.model, self.before = model, before

    def call(self, images):
        with _recorded(self.before) as found:
            self.model(images, training=False)
        return ops.concatenate([ops.reshape(each, (ops.shape(images)[0], -1)) for each in found], axis=1)


@contextlib.contextmanager
def _recorded(layers):
    """A context that yields a list, which contains the outputs of the layers when the context ends."""
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
        if len(output_of) < len(layers):
            raise ValueError(
                "InitialEmbedding cannot initialize this model, because an image does not pass through all of its "
                "linear layers. Initialize the networks of a TwoStreams model before you join them."
            )
        outputs.extend(ops.cast(output_of[id(layer)], "float32") for layer in layers)
    finally:
        for layer in layers:
            del layer.call


def _embedding_layers(model):
    return [layer for layer in layers_of(model) if isinstance(layer, FeatureEmbedding)]


def _linear_parts(model):
    """Returns the `LinearPart` of each linear layer of a model's embedding. Layers divide the components among them."""
    layers = _embedding_layers(model)
    if not layers:
        raise ValueError(
            "InitialEmbedding cannot initialize this model. Expected a model with linear layers behind pooled "
            f"features, such as tfdml.Single. Received: {type(model).__name__} {model.name!r}, which has none."
        )
    if not model.built:
        raise ValueError("InitialEmbedding needs a model that has weights. Call the model on a batch before fit().")
    return [
        dataclasses.replace(part, components=part.components * len(layers) + place)
        for place, layer in enumerate(layers)
        for part in layer.linear_parts()
    ]
