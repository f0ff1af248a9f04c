"""Separate step counts for some of an optimizer's variables."""

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.step_counts import counting
from tfdml.runtime.keras_internals import place_of, trained_variables

# Optimizers that use `iterations` elementwise, so that the count may differ between columns of a variable.
USE_STEPS = (keras.optimizers.Adam, keras.optimizers.Adamax)


def count_apart(optimizer, steps_of):
    """Makes an optimizer update some variables by the number of steps that trained them, not by all steps.

    This affects the bias correction of Adam, AdamW and Adamax. The learning rate schedule counts all steps. Other
    optimizers are unchanged: most do not use the number of steps; Nadam, Lamb and others count all steps.

    Args:
        optimizer: Keras optimizer.
        steps_of: function from a Keras variable to its count before this step, an integer tensor that broadcasts
            against the variable, or None: all steps.
    """
    if not isinstance(optimizer, USE_STEPS):
        return
    if isinstance(optimizer, LayerGroups):
        optimizer.count_apart(steps_of)
        return
    update_step = type(optimizer).update_step

    def update_by_own_steps(gradient, variable, learning_rate):
        known = trained_variables(optimizer)[place_of(optimizer, variable)]
        with counting(optimizer, steps_of(known)):
            update_step(optimizer, gradient, variable, learning_rate)

    vars(optimizer)["update_step"] = update_by_own_steps
