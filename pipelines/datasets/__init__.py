"""Datasets: rows of images and labels, one dataset a file, which `--dataset` finds by its registered name."""

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.loading import load
from pipelines.datasets.split import Split

__all__ = ["Dataset", "Split", "load"]
