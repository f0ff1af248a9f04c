"""Datasets: rows of images and labels, one dataset a file."""

from pipelines.datasets.dataset import Dataset, Split
from pipelines.datasets.folder import folder
from pipelines.datasets.toycars import toycars

__all__ = ["Dataset", "Split", "folder", "toycars"]
