"""Datasets: images with labels. There is one dataset per file, which `--dataset` finds by its registered name."""

from pipelines.dataset import Dataset, Split
from pipelines.datasets.loading import load

__all__ = ["Dataset", "Split", "load"]
