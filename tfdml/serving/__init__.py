"""Exported models and the image indexes that are built with them."""

from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.index.index import Index
from tfdml.serving.index.labeling import DuplicateGroup, Labeled
from tfdml.serving.index.searcher import Searcher
from tfdml.serving.index.stores.store import Found, Neighbor
from tfdml.serving.saved_model import export

__all__ = ["DuplicateGroup", "ExportedModel", "Found", "Index", "Labeled", "Neighbor", "Searcher", "export"]
