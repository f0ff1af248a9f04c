"""Checks of shapes, labels and embeddings."""

from typing import Any

import numpy as np
from keras import ops
from keras.backend import standardize_dtype

from tfdml.registry.arguments import Tensor


def check_pairs_input(labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Returns `(labels, embeddings [B, d] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` class numbers, or other labels that `tfdml.functional.pairs` names.
        embeddings: `[B, d]` floating point.
    """
    return _check(labels, embeddings, "embeddings", ("batch", "dim"), check_kind)


def check_similarities_input(labels: Tensor, similarities: Tensor, several: bool = False) -> tuple[Tensor, Tensor]:
    """Returns `(labels [B], similarities [B, C] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` class numbers.
        similarities: `[B, C]` floating point.
        several: whether they are `[B, C, n]` instead, with n proxies per class.
    """
    axes = ("batch", "classes", "per_class")[: 3 if several else 2]
    return _check(labels, similarities, "similarities", axes, check_class_numbers)


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


def check_class_numbers(labels: Tensor) -> None:
    """Raises a ValueError where labels `[B, ...]` are not one class number an image."""
    if len(labels.shape) != 1:
        raise ValueError(
            f"Expected labels of shape [batch] with class numbers, received shape {tuple(labels.shape)}. "
            "One-hot labels need argmax first."
        )


def check_kind(labels: Tensor) -> None:
    """Raises a ValueError where labels `[B, ...]` are none of the kinds that `tfdml.functional.pairs` names.

    Whether levels are a tree, and whether any pair is known, is checked where values are known.
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
            f"Expected labels of shape {shape} as categories from coarse to fine, and received a category that is in "
            "two of the level above it, which is no tree. One-hot labels need argmax first; several labels an image "
            "are booleans."
        )
    if is_matrix and np.any(known != known.T):
        raise ValueError(
            f"Expected labels of shape {shape}, floating point, as the relevance of each pair, which is the same both "
            "ways, and received others. One-hot labels need argmax first."
        )
    if is_matrix and not np.any(known[~np.eye(len(known), dtype=bool)] >= 0):
        raise ValueError("No pair of the batch is known: all are below 0. Expected the relevance of some, 0 to 1.")


def _is_no_tree(levels):
    pairs = [set(zip(*each, strict=True)) for each in zip(levels.T, levels.T[1:], strict=False)]
    return any(len(each) > len({fine for _, fine in each}) for each in pairs)


def _check(labels, values, name, axes, check_labels):
    labels, values = ops.convert_to_tensor(labels), ops.convert_to_tensor(values)
    if len(values.shape) != len(axes):
        raise ValueError(f"Expected {name} of shape [{', '.join(axes)}], received shape {tuple(values.shape)}.")
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, axis=1)
    check_labels(labels)
    if None not in (labels.shape[0], values.shape[0]) and labels.shape[0] != values.shape[0]:
        raise ValueError(f"Received {labels.shape[0]} labels for {values.shape[0]} {name}; expected as many.")
    if is_floating(labels):
        check_classes(labels, None)
    # Distances are too imprecise in half precision, so losses never use it, whatever the network's dtype policy.
    return labels, at_least_float32(values)
