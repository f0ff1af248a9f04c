"""Another count of an optimizer's steps, for a while."""

import contextlib

from tfdml.runtime.keras_internals import iterations_replaced


@contextlib.contextmanager
def counting(optimizer, steps):
    """Returns a context in which `optimizer.iterations` is another count.

    Args:
        optimizer: Keras optimizer.
        steps: integer tensor that broadcasts against the updated variable; None: all steps, as usual.
    """
    if steps is None:
        yield
        return
    # Keras divides by it for gradient accumulation.
    with iterations_replaced(optimizer, steps * (optimizer.gradient_accumulation_steps or 1)):
        yield
