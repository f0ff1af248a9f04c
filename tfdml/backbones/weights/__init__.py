"""Weights of backbones in files: published ones of other frameworks, and Keras' own by name."""

from tfdml.backbones.weights.adapter import adapted_layers, load_adapter, save_adapter
from tfdml.backbones.weights.by_name import load_by_name
from tfdml.backbones.weights.published_weights import SOURCES, advice, convert, convert_file
from tfdml.backbones.weights.transformers import TRANSFORMERS, convert_transformer, write_preset

__all__ = [
    "SOURCES",
    "TRANSFORMERS",
    "adapted_layers",
    "advice",
    "convert",
    "convert_file",
    "convert_transformer",
    "load_adapter",
    "load_by_name",
    "save_adapter",
    "write_preset",
]
