"""Exported models, and indexes of images that they embed."""

from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model import export
from tfdml.serving.index.searcher import Neighbor, Searcher

__all__ = ["ExportedModel", "Neighbor", "Searcher", "export"]
