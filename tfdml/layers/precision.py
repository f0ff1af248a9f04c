"""Precision of layers that are created from a configuration."""

import contextlib

import keras


@contextlib.contextmanager
def layers_in(policy):
    """Returns a context in which new layers have this precision; without it they have the global one.

    Args:
        policy: name or configuration of a Keras dtype policy; None: the global one.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if policy is None else keras.dtype_policies.get(policy))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
