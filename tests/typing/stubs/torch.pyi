"""PyTorch, which docs/evaluation.md uses, and which the tests do not install."""

from typing import Any

def __getattr__(name: str) -> Any: ...
