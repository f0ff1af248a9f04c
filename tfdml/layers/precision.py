"""The precision of layers that are made again from a configuration."""

import contextlib

import keras


@contextlib.contextmanager
def layers_in(policy):
    """Makes layers of this precision, which take the global one otherwise, whatever their model's own is.

    Args:
        policy: name or configuration of a Keras dtype policy; None: the global one.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if policy is None else keras.dtype_policies.get(policy))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
