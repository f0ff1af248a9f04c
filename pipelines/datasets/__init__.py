"""Datasets: rows of images and labels, one dataset a file."""

from pipelines.datasets.cars196 import cars196
from pipelines.datasets.csv import csv
from pipelines.datasets.cub200 import cub200
from pipelines.datasets.dataset import Dataset, Split
from pipelines.datasets.folder import folder
from pipelines.datasets.inshop import inshop
from pipelines.datasets.loading import load
from pipelines.datasets.market1501 import market1501
from pipelines.datasets.sop import sop
from pipelines.datasets.tfds import tfds
from pipelines.datasets.toycars import toycars
from pipelines.datasets.vehicleid import vehicleid

__all__ = [
    "Dataset",
    "Split",
    "cars196",
    "csv",
    "cub200",
    "folder",
    "inshop",
    "load",
    "market1501",
    "sop",
    "tfds",
    "toycars",
    "vehicleid",
]
