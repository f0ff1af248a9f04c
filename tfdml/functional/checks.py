"""Checks of shapes, labels and embeddings."""

from typing import Any

import numpy as np
from keras import ops
from keras.backend import standardize_dtype

from tfdml.registry.arguments import Tensor


def check_pairs_input(labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Returns `(labels, embeddings [B, d] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` integer class labels, or another kind of labels; see `check_kind`.
        embeddings: `[B, d]` floating point.
    """
    return _check(labels, embeddings, "embeddings", ("batch", "dim"), check_kind)


def check_similarities_input(labels: Tensor, similarities: Tensor, several: bool = False) -> tuple[Tensor, Tensor]:
    """Returns `(labels [B], similarities [B, C] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` integer class labels.
        similarities: `[B, C]` floating point.
        several: whether similarities are `[B, C, n]`, with n proxies per class.
    """
    axes = ("batch", "classes", "per_class")[: 3 if several else 2]
    return _check(labels, similarities, "similarities", axes, check_class_numbers)


def at_least_float32(values: Tensor) -> Tensor:
    """Casts values to float32, unless they are float64. Losses use this precision, whatever the dtype policy."""
    return ops.cast(values, loss_dtype(values.dtype))


def loss_dtype(dtype: Any) -> str:
    """Returns `"float64"` for float64, and `"float32"` for any other dtype."""
    return "float64" if standardize_dtype(dtype) == "float64" else "float32"


def concrete(values: Tensor) -> np.ndarray | None:
    """Returns the values as a NumPy array, or None if they are unknown because a function is being compiled."""
    try:
        return ops.convert_to_numpy(values)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return None


def check_classes(labels: Tensor, classes: int | None, name: str = "The loss") -> None:
    """Raises a ValueError if a label is NaN or not one of a loss's classes.

    Args:
        labels: `[B]` tensor or array. If its values are unknown, as in a compiled function, nothing is checked.
        classes: number of classes that the loss was created for. If None, any label is valid.
        name: name of the loss in the error.
    """
    known = concrete(labels)
    if known is None:
        return
    known = known.reshape(-1)
    (missing,) = np.nonzero(known != known)
    if len(missing):
        raise ValueError(f"Every row must have a label. Received: NaN at position {missing[0]} of {len(known)}.")
    if classes is None:
        return
    (wrong,) = np.nonzero((known < 0) | (known >= classes))
    if len(wrong):
        raise ValueError(
            f"{name} was created for {classes} classes, so labels must be from 0 to {classes - 1}. Received: "
            f"{known[wrong[0]]} at position {wrong[0]}."
        )


def nan_with(values: Tensor, *tensors: Tensor) -> Tensor:
    """Returns the values, or NaN for all of them if a tensor contains NaN.

    Without this, NaN could disappear from a loss, because comparisons with NaN are False in masks.
    """
    for tensor in tensors:
        if is_floating(tensor):
            values = ops.where(ops.any(ops.isnan(tensor)), float("nan"), values)
    return values


def is_floating(tensor: Tensor) -> bool:
    """Whether a tensor or array has floating point numbers, which can be NaN."""
    return "float" in standardize_dtype(tensor.dtype)


def check_class_numbers(labels: Tensor) -> None:
    """Raises a ValueError if labels `[B, ...]` are not one class label per image."""
    if len(labels.shape) != 1:
        raise ValueError(
            f"Labels must be integer class labels of shape [batch]. Received: shape={tuple(labels.shape)}. "
            "Convert one-hot labels with argmax first."
        )


def check_kind(labels: Tensor) -> None:
    """Raises a ValueError if labels are not of a supported kind.

    Supported are class labels `[B]`, levels of a class hierarchy `[B, L]` or `[B, 1, L]`, several labels per image as
    booleans `[B, C]`, and the relevance of each pair `[B, B]`, floating point. Values are only checked if they are
    known, which they are not in a compiled function.
    """
    kinds, shape = len(labels.shape), tuple(labels.shape)
    if kinds == 1 or (kinds == 3 and shape[1] == 1):
        return
    is_matrix = is_floating(labels) and (None in shape or shape[0] == shape[-1])
    if kinds != 2 or (is_floating(labels) and not is_matrix):
        check_class_numbers(labels)
    known = concrete(labels)
    if known is None:
        return
    if known.dtype.kind in "iu" and _is_no_tree(known):
        raise ValueError(
            f"Integer labels of shape {shape} must be categories from coarse to fine, but a category belongs to two "
            "categories of the level above it, which is not a tree. Convert one-hot labels with argmax first. For "
            "several labels per image, use booleans."
        )
    if is_matrix and np.any(known != known.T):
        raise ValueError(
            f"Floating-point labels of shape {shape} must be the relevance of each pair, a symmetric matrix. "
            "Received: a matrix that is not symmetric. Convert one-hot labels with argmax first."
        )
    if is_matrix and not np.any(known[~np.eye(len(known), dtype=bool)] >= 0):
        raise ValueError(
            "The relevance of at least one pair of the batch must be known, from 0 to 1. Received: only values below 0."
        )


def _is_no_tree(levels):
    pairs = [set(zip(*each, strict=True)) for each in zip(levels.T, levels.T[1:], strict=False)]
    return any(len(each) > len({fine for _, fine in each}) for each in pairs)


def _check(labels, values, name, axes, check_labels):
    labels, values = ops.convert_to_tensor(labels), ops.convert_to_tensor(values)
    if len(values.shape) != len(axes):
        raise ValueError(f"Expected {name} of shape [{', '.join(axes)}]. Received: shape={tuple(values.shape)}.")
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, axis=1)
    check_labels(labels)
    if None not in (labels.shape[0], values.shape[0]) and labels.shape[0] != values.shape[0]:
        raise ValueError(
            f"The number of labels must match the number of {name}. Received: {labels.shape[0]} labels for "
            f"{values.shape[0]} {name}."
        )
    if is_floating(labels):
        check_classes(labels, None)
    # Distances are too imprecise in half precision, so losses never use it, whatever the dtype policy.
    return labels, at_least_float32(values)
