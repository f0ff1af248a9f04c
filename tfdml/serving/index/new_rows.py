"""`NewRows`: embeddings that are added to an index."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class NewRows:
    """Embeddings, and what is known of their images.

    Args:
        vectors: `[N, D]` float32.
        labels: list of N texts, or None where an image has no label.
        paths: list of N texts, each another one; None: their ids, such as `#7`.
        attributes: name to N values, see `attributes_of`; None: none.
        ids: `[N]` int64; None: the next ones.
        bad: path to reason of images that could not be read.
    """

    vectors: np.ndarray
    labels: list
    paths: list | None = None
    attributes: Mapping[str, Any] | None = None
    ids: np.ndarray | None = None
    bad: Mapping[str, str] = dataclasses.field(default_factory=dict)
