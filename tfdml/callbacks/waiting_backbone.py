"""`WaitingBackbone`: the first stage of training in two, in which the backbone only computes features."""

import keras

from tfdml.callbacks.steps_taken import check_single_steps, steps_taken
from tfdml.registry.arguments import Count, StepCounter
from tfdml.registry.fields import Declared


class WaitingBackbone(Declared, keras.callbacks.Callback):
    """Computes no gradients of the backbone in the first steps, which take less time, then those of all weights.

    The optimizer says that it stays as it is: `frozen_steps={"backbone": steps}`. The step is compiled once more when
    the backbone begins to learn; weights are those of training with `frozen_steps` alone.

    Example: `model.fit(batches, callbacks=[WaitingBackbone(500)])` with `AdamW(frozen_steps={"backbone": 500})`.

    Args:
        steps: number of first steps.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
    """

    def __init__(self, steps: Count, *, step: StepCounter | None = None):
        super().__init__()
        self.steps = steps
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_begin(self, logs=None):
        check_single_steps(self.model, "WaitingBackbone ends a stage between two steps")
        self.model.let_backbones_wait(self._step() < self.steps)

    def on_train_batch_begin(self, batch, logs=None):
        # Asking the optimizer each time, once it learns, would wait for the device.
        if self.model.backbones_wait and self._step() >= self.steps:
            self.model.let_backbones_wait(False)

    def on_train_end(self, logs=None):
        # Whoever trains on without this callback trains all.
        self.model.let_backbones_wait(False)
