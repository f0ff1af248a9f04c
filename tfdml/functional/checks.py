"""Checks of shapes, labels and embeddings."""

from typing import Any

import numpy as np
from keras import ops
from keras.backend import standardize_dtype

from tfdml.registry.annotations import Tensor


def check_pairs_input(labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Returns `(labels [B], embeddings [B, d] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` class numbers.
        embeddings: `[B, d]` floating point.
    """
    return _check(labels, embeddings, "embeddings", ("batch", "dim"))


def check_similarities_input(labels: Tensor, similarities: Tensor, several: bool = False) -> tuple[Tensor, Tensor]:
    """Returns `(labels [B], similarities [B, C] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` class numbers.
        similarities: `[B, C]` floating point.
        several: whether they are `[B, C, n]` instead, with n proxies per class.
    """
    return _check(labels, similarities, "similarities", ("batch", "classes", "per_class")[: 3 if several else 2])


def at_least_float32(values: Tensor) -> Tensor:
    """Casts values to float32, unless they are float64: the precision of losses, whatever the dtype policy."""
    return ops.cast(values, loss_dtype(values.dtype))


def loss_dtype(dtype: Any) -> str:
    """Returns `"float64"` for float64, and `"float32"` for any other dtype."""
    return "float64" if standardize_dtype(dtype) == "float64" else "float32"


def concrete(values: Tensor) -> np.ndarray | None:
    """Returns the values as a NumPy array, or None inside a compiled function, where they are unknown."""
    try:
        return ops.convert_to_numpy(values)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return None


def check_classes(labels: Tensor, classes: int | None, name: str = "The loss") -> None:
    """Raises a ValueError where a label is NaN, or no class of a loss.

    Args:
        labels: `[B]` tensor or array; in a compiled function, where its values are unknown, nothing is checked.
        classes: number of classes that the loss was made for; None: any.
        name: what the error calls the loss.
    """
    known = concrete(labels)
    if known is None:
        return
    known = known.reshape(-1)
    (missing,) = np.nonzero(known != known)
    if len(missing):
        raise ValueError(f"Expected a label for each row, received NaN at position {missing[0]} of {len(known)}.")
    if classes is None:
        return
    (wrong,) = np.nonzero((known < 0) | (known >= classes))
    if len(wrong):
        raise ValueError(
            f"{name} was made for {classes} classes: expected labels from 0 to {classes - 1}, received "
            f"{known[wrong[0]]} at position {wrong[0]}."
        )


def nan_with(values: Tensor, *tensors: Tensor) -> Tensor:
    """Returns the values, all NaN where a tensor has NaN.

    A comparison with NaN is False, so masks and minima may leave it out of what they compute.
    """
    for tensor in tensors:
        if is_floating(tensor):
            values = ops.where(ops.any(ops.isnan(tensor)), float("nan"), values)
    return values


def is_floating(tensor: Tensor) -> bool:
    """Whether a tensor or array has floating point numbers, and so may have NaN."""
    return "float" in standardize_dtype(tensor.dtype)


def _check(labels, values, name, axes):
    labels, values = ops.convert_to_tensor(labels), ops.convert_to_tensor(values)
    if len(values.shape) != len(axes):
        raise ValueError(f"Expected {name} of shape [{', '.join(axes)}], received shape {tuple(values.shape)}.")
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, axis=1)
    if len(labels.shape) != 1:
        raise ValueError(
            f"Expected labels of shape [batch] with class numbers, received shape {tuple(labels.shape)}. "
            "One-hot labels need argmax first."
        )
    if None not in (labels.shape[0], values.shape[0]) and labels.shape[0] != values.shape[0]:
        raise ValueError(f"Received {labels.shape[0]} labels for {values.shape[0]} {name}; expected as many.")
    if is_floating(labels):
        check_classes(labels, None)
    # Distances are too imprecise in half precision, so losses never use it, whatever the network's dtype policy.
    return labels, at_least_float32(values)
