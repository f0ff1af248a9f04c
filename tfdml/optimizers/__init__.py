"""Optimizers with learning rates by layer group, and learning rate schedules."""

from tfdml.optimizers import schedules
from tfdml.optimizers.adam import Adam
from tfdml.optimizers.adamw import AdamW
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "LayerGroups", "schedules"]
