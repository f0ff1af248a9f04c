"""Exported models, and indexes of images that they embed."""

from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.saved_model import export

__all__ = ["ExportedModel", "export"]
