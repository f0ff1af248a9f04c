"""Names that the reader of a page has before its first example, for `check.py`."""

from typing import Any

# README.md: a reader's image files and their classes.
paths: list[str]
labels: list[str]
# docs/evaluation.md: a model and a loader of PyTorch.
model: Any
loader: Any
