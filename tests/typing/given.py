"""Names that the reader of a page has before its first example, for `check.py`."""

from typing import Any

import keras
import numpy as np

import tfdml

__all__ = ["batches", "embedder", "held_out_images", "held_out_labels", "images", "keras", "labels", "model", "np"]
__all__ += ["tfdml"]

# docs/troubleshooting.md: a reader's models and images, which its short answers change.
model: keras.Model
embedder: keras.Model
images: np.ndarray
labels: np.ndarray
held_out_images: np.ndarray
held_out_labels: np.ndarray
batches: Any
