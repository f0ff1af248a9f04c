"""Backbones: networks from images to features."""

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.small import Small

__all__ = ["Backbone", "Small"]
