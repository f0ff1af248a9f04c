"""Warnings about a first batch that cannot train a model, or with images that are not preprocessed for it."""

import math
import warnings

import keras
import numpy as np
from keras import ops

from pipelines.preprocessing import Preprocessing, declared_by, why_not_prepared
from tfdml.functional.pairs import is_graded
from tfdml.registry.loss_hooks import hooks_of

# Number of images per batch that a training step checks for their pixel range.
LOOKED_AT = 8
# Largest distance at which embeddings count as equal. It allows for rounding.
EQUAL = 1e-5
# The measurements of a batch that a step writes.
NOTED = ("low", "high", "positive_distance", "negative_distance", "loss")


class PixelCheck:
    """Checks the pixel range of images that a model receives outside of compiled functions. It warns once.

    The expected range comes from the preprocessing of the model or, if it has none, of its backbone.
    """

    def __init__(self, model):
        self._model = model
        self._warned = False

    def __call__(self, images):
        if self.declares_range() and 0 not in images.shape:
            self.check_ends(*(float(each) for each in ends_of(images)))

    def declares_range(self):
        """Whether this object still checks images and the model declares the range of its pixels."""
        return not self._warned and self._range() is not None

    def check_ends(self, low, high):
        """Warns if pixels from `low` to `high` are not preprocessed for the model."""
        least, most = self._range()
        reason = why_not_prepared(low, high, (least, most))
        if reason:
            self._warned = True
            warnings.warn(
                f"{reason}. Expected values from {least:.3g} to {most:.3g}. Received: values from {low:.3g} to "
                f"{high:.3g}. The model expects (pixels - mean) / std of pixels from 0 to 255. To embed images, use "
                "tfdml.load(file).embed(images), which preprocesses them. To train, use batches from "
                "tfdml.data.pxk(images, labels, backbone=...). If your own model expects other values, set "
                "model.preprocessing = tfdml.Preprocessing(...).",
                stacklevel=3,
            )

    def _range(self):
        declared = self._model.preprocessing
        inherited = declared_by(self._model)
        if declared is None and {"mean", "std"} <= inherited.keys() and "vector_dims" not in inherited:
            declared = Preprocessing.of(self._model, image_size=1)
        return declared and declared.range()


def ends_of(images):
    """Returns the minimum and the maximum of images, float32 scalars."""
    return tuple(ops.cast(reduce(images), "float32") for reduce in (ops.min, ops.max))


class FirstBatch:
    """Records measurements of a batch in the training step, and warns after the first step if it trained nothing.

    A compiled step cannot warn, and checking a dataset before the first step would consume a batch. So each step writes
    a few numbers, most of which it measures anyway, and only the numbers of the first step are read.
    """

    def __init__(self, model):
        self._model = model
        # This is not a metric, so neither checkpoints nor logs contain it. The first replica stands for all others.
        self.variable = keras.Variable(
            np.zeros(len(NOTED), np.float32),
            dtype="float32",
            trainable=False,
            aggregation="only_first_replica",
            synchronization="on_read",
            name="first_batch",
        )
        self._graded = False
        self._warned = set()
        # Whether the next step is the first one of a `fit`.
        self.unchecked = True

    def note(self, images, labels, measured):
        """Writes the measurements of a batch, from this replica's images and the global labels. The step calls it.

        A measured distance is NaN if the batch has no such pairs.
        """
        self._graded = is_graded(labels)
        ends = (0.0, 0.0)
        if ops.is_tensor(images) and self._model.check_pixels.declares_range():
            ends = ends_of(images[:LOOKED_AT])
        self.variable.assign(ops.stack([*ends, *(ops.cast(measured[name], "float32") for name in NOTED[2:])]))

    def check(self, values=None):
        """Warns about the measurements of the first step, once for each problem.

        `values` are the values of the variable, if the model does not hold them.
        """
        self.unchecked = False
        values = self.variable if values is None else values
        noted = dict(zip(NOTED, ops.convert_to_numpy(values).tolist(), strict=True))
        low, high = noted.pop("low"), noted.pop("high")
        if low < high and self._model.check_pixels.declares_range():
            self._model.check_pixels.check_ends(low, high)
        fault = None if math.isnan(noted["loss"]) else self._fault(**noted)
        if fault and fault not in self._warned:
            self._warned.add(fault)
            warnings.warn(fault, stacklevel=3)

    def _fault(self, positive_distance, negative_distance, loss):
        model = self._model
        missing = {"positive": math.isnan(positive_distance), "negative": math.isnan(negative_distance)}
        hooks, name = hooks_of(model.loss), type(model.loss).__name__
        in_batch = hooks.needs_pairs and hooks.batch_parts == 1 and model.past_batches is None and not self._graded
        if in_batch and any(missing.values()):
            if all(missing.values()):
                which, pairs = "has a single image", "pair"
            elif missing["positive"]:
                which, pairs = "has no two images of the same class", "positive pair"
            else:
                which, pairs = "has images of one class only", "negative pair"
            return (
                f"The first batch {which}, so {name} has no {pairs} to learn from. Expected several images of each of "
                "several classes in a batch. Use batches from tfdml.data.pxk(images, labels, classes=8, per_class=4), "
                "or shuffle the images and use a larger batch_size."
            )
        if not missing["negative"] and max(negative_distance, 0 if missing["positive"] else positive_distance) < EQUAL:
            return (
                "All embeddings of the first batch are equal, so the model cannot learn from them and Recall@1 is 0%. "
                "Check that the images differ, that their pixels are scaled as the backbone expects, and that its "
                "weights are not damaged."
            )
        return None
