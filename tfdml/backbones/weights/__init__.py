"""Weights of backbones in files: published ones of other frameworks, and Keras' own by name."""

from tfdml.backbones.weights.by_name import load_by_name
from tfdml.backbones.weights.published_weights import SOURCES, advice, convert, convert_file
from tfdml.backbones.weights.transformers import TRANSFORMERS, convert_transformer, write_preset

__all__ = [
    "SOURCES",
    "TRANSFORMERS",
    "advice",
    "convert",
    "convert_file",
    "convert_transformer",
    "load_by_name",
    "write_preset",
]
