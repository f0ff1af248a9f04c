"""Step counts of their own for some of an optimizer's variables."""

import contextlib

import keras

from tfdml.keras_internals import iterations_replaced, place_of, trained_variables

# Optimizers that use `iterations` number by number of a variable, so that the count may differ from column to column.
USE_STEPS = (keras.optimizers.Adam, keras.optimizers.Adamax)


@contextlib.contextmanager
def counting(optimizer, steps):
    """Context in which `optimizer.iterations` is another count.

    Args:
        optimizer: Keras optimizer.
        steps: integer tensor that broadcasts against the variable that is updated; None: all steps, as usual.
    """
    if steps is None:
        yield
        return
    # Keras divides by it where gradients are accumulated.
    with iterations_replaced(optimizer, steps * (optimizer.gradient_accumulation_steps or 1)):
        yield


def count_apart(optimizer, steps_of):
    """Lets an optimizer update some variables by the number of steps that they have learned in, not by all steps.

    This decides the bias correction of Adam, AdamW and Adamax. The learning rate's schedule goes by all steps. Other
    optimizers stay as they are: most do not use the number of steps; Nadam, Lamb and others go by all steps.

    Args:
        optimizer: Keras optimizer.
        steps_of: function from a Keras variable to its count before this step, an integer tensor that broadcasts
            against the variable, or None: all steps.
    """
    if not isinstance(optimizer, USE_STEPS):
        return
    if hasattr(optimizer, "count_apart"):
        optimizer.count_apart(steps_of)
        return
    update_step = type(optimizer).update_step

    def update_by_own_steps(gradient, variable, learning_rate):
        known = trained_variables(optimizer)[place_of(optimizer, variable)]
        with counting(optimizer, steps_of(known)):
            update_step(optimizer, gradient, variable, learning_rate)

    vars(optimizer)["update_step"] = update_by_own_steps
