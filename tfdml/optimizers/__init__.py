"""Optimizers with a learning rate per layer group, and learning rate schedules."""

from tfdml.optimizers import schedules
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.optimizers.optimizers import SGD, Adam, AdamW

__all__ = ["SGD", "Adam", "AdamW", "LayerGroups", "schedules"]
