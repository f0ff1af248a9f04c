"""A warning for images that were not prepared as a model wants them."""

import warnings

import tensorflow as tf

from pipelines.preprocessing import Preprocessing, declared_by, why_not_prepared


class PixelCheck:
    """Looks at images that a model is given outside of compiled functions, until it has warned once.

    Args:
        model: model of a method; what it does not declare itself, its backbone may.
    """

    def __init__(self, model):
        self._model = model
        self._warned = False

    def __call__(self, images):
        own = None if self._warned else self._range()
        if own is None or tf.size(images) == 0:
            return
        low, high = (float(tf.cast(reduce(images), tf.float32)) for reduce in (tf.reduce_min, tf.reduce_max))
        reason = why_not_prepared(low, high, own)
        if reason:
            self._warned = True
            warnings.warn(
                f"{reason}: expected numbers from {own[0]:.3g} to {own[1]:.3g}, received {low:.3g} to {high:.3g}. It "
                "takes (pixels - mean) / std of pixels from 0 to 255. tfdml.load(file).embed(images) prepares images "
                "as the model wants them; a model of your own declares what it takes with model.preprocessing = "
                "tfdml.Preprocessing(...).",
                stacklevel=2,
            )

    def _range(self):
        declared = self._model.preprocessing
        found = declared_by(self._model)
        if declared is None and {"mean", "std"} <= found.keys() and "vector_dims" not in found:
            declared = Preprocessing.of(self._model, image_size=1)
        return declared and declared.range()
