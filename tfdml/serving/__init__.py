"""Exported models, and indexes of images that they embed."""

from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.saved_model import export
from tfdml.serving.searcher import Neighbor, Searcher

__all__ = ["ExportedModel", "Neighbor", "Searcher", "export"]
