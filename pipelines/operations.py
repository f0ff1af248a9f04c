"""The operations that compute batches: TensorFlow, or NumPy if the Keras backend is another one."""

from typing import TYPE_CHECKING

from tfdml.runtime.backends import uses_tensorflow

if TYPE_CHECKING or uses_tensorflow():
    import tensorflow as tf

    # Errors of operations. NumPy's operations raise a ValueError.
    OPERATION_ERRORS = (tf.errors.OpError,)
else:
    from pipelines import numpy_operations as tf

    OPERATION_ERRORS = ()

__all__ = ["OPERATION_ERRORS", "tf"]
