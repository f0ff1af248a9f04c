"""Adam by layer group."""

import keras
from keras import ops

from tfdml.optimizers.arguments import ADAM_ARGUMENTS
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.registry import register


class AdamGroups(LayerGroups):
    """`LayerGroups` for optimizers that correct the bias of Adam's moments."""

    def _late_start(self, frozen_steps, dtype):
        # Keras corrects by the number of all steps; the moments of what was frozen have seen fewer. Without this the
        # first steps after a long freeze would be several times too large.
        steps = ops.cast(self.iterations + 1, dtype)
        own = ops.maximum(steps - frozen_steps, 1)
        return self._correction(own) / self._correction(steps)

    def _correction(self, steps):
        return ops.sqrt(1 - ops.power(self.beta_2, steps)) / (1 - ops.power(self.beta_1, steps))


@register("optimizer", "adam", **ADAM_ARGUMENTS)
class Adam(AdamGroups, keras.optimizers.Adam):
    """Keras' Adam with learning rates by layer group; see `LayerGroups` and `keras.optimizers.Adam`.

    Example: `tfdml.optimizers.Adam(1e-4, lr_multipliers={"loss": 100}, frozen_steps={"backbone": 500})`.
    """
