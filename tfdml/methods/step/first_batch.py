"""Warnings for a first batch from which a model cannot learn, or whose images were not prepared for it."""

import math
import warnings

import keras
import tensorflow as tf

from pipelines.preprocessing import Preprocessing, declared_by, why_not_prepared
from tfdml.functional.pairs import is_graded
from tfdml.registry.loss_hooks import hooks_of

# Images of a batch whose pixels a training step looks at.
LOOKED_AT = 8
# Distance at which embeddings count as equal: what rounding makes of equal ones.
EQUAL = 1e-5
# What a step notes of its batch.
NOTED = ("low", "high", "positive_distance", "negative_distance", "loss")


class PixelCheck:
    """Looks at images that a model is given outside of compiled functions, until it has warned once.

    What the model does not declare itself, its backbone may.
    """

    def __init__(self, model):
        self._model = model
        self._warned = False

    def __call__(self, images):
        if self.declares_range() and tf.size(images) > 0:
            self.check_ends(*(float(each) for each in ends_of(images)))

    def declares_range(self):
        """Whether it still checks, and the model says from what number to what its pixels are."""
        return not self._warned and self._range() is not None

    def check_ends(self, low, high):
        """Warns if pixels from `low` to `high` cannot be the model's."""
        least, most = self._range()
        reason = why_not_prepared(low, high, (least, most))
        if reason:
            self._warned = True
            warnings.warn(
                f"{reason}: expected numbers from {least:.3g} to {most:.3g}, received {low:.3g} to {high:.3g}. It "
                "takes (pixels - mean) / std of pixels from 0 to 255. tfdml.load(file).embed(images) prepares images "
                "as the model wants them, and batches of tfdml.data.pxk(images, labels, backbone=...) are prepared for "
                "training; a model of your own declares what it takes with model.preprocessing = "
                "tfdml.Preprocessing(...).",
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
    return tuple(tf.cast(reduce(images), tf.float32) for reduce in (tf.reduce_min, tf.reduce_max))


class FirstBatch:
    """Notes in the training step what a batch is like, and warns after the first step if nothing can be learned.

    A compiled step cannot warn, and to look at a dataset before the step would take a batch from it. So each step
    writes a few numbers, most of which it has measured anyway, and only the first one's are read.
    """

    def __init__(self, model):
        self._model = model
        # Not a metric, so that neither checkpoints nor logs have it. The first replica's, which the others are like.
        self._noted = keras.Variable(
            tf.zeros([len(NOTED)]),
            dtype="float32",
            trainable=False,
            aggregation="only_first_replica",
            synchronization="on_read",
            name="first_batch",
        )
        self._graded = False
        self._warned = set()
        # Whether the next step is the first of a `fit`.
        self.unchecked = True

    def note(self, images, labels, measured):
        """Writes what there is to say of a batch, of this replica's images and the global labels; the step calls it.

        It has measured a distance as NaN if there are no such pairs.
        """
        self._graded = is_graded(labels)
        ends = (0.0, 0.0)
        if tf.is_tensor(images) and self._model.check_pixels.declares_range():
            ends = ends_of(images[:LOOKED_AT])
        self._noted.assign(tf.stack([*ends, *(tf.cast(measured[name], tf.float32) for name in NOTED[2:])]))

    def check(self):
        """Warns of what the first step has noted, of each fault once."""
        self.unchecked = False
        noted = dict(zip(NOTED, keras.ops.convert_to_numpy(self._noted).tolist(), strict=True))
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
                "several classes in a batch. Use batches of tfdml.data.pxk(images, labels, classes=8, per_class=4), or "
                "shuffle the images and use a larger batch_size."
            )
        if not missing["negative"] and max(negative_distance, 0 if missing["positive"] else positive_distance) < EQUAL:
            return (
                "All embeddings of the first batch are equal, so nothing can be learned from them, and Recall@1 is 0. "
                "Check that the images differ, that their pixels are scaled as the backbone expects, and that its "
                "weights are not damaged."
            )
        return None
