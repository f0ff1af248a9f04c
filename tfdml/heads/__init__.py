"""Heads: what a method does with a backbone's features before its linear layer."""

from tfdml.heads.head import Head
from tfdml.heads.linear import Linear

__all__ = ["Head", "Linear"]
