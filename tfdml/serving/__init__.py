"""Exported models, and indexes of images that they embed."""

from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model import export
from tfdml.serving.index.duplicates import DuplicateGroup
from tfdml.serving.index.found import Found
from tfdml.serving.index.index import Index
from tfdml.serving.index.labeling import Labeled
from tfdml.serving.index.neighbor import Neighbor
from tfdml.serving.index.searcher import Searcher

__all__ = ["DuplicateGroup", "ExportedModel", "Found", "Index", "Labeled", "Neighbor", "Searcher", "export"]
