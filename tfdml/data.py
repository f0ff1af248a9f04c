"""Batches of your images for `model.fit` and `model.predict`, scaled for the backbone."""

from pipelines.batches import in_order, pxk, views

__all__ = ["in_order", "pxk", "views"]
