"""Weights of backbones in files: published ones of other frameworks, and Keras' own by name."""

from tfdml.backbones.weights.by_name import load_by_name
from tfdml.backbones.weights.published_weights import SOURCES, advice, convert, convert_file

__all__ = ["SOURCES", "advice", "convert", "convert_file", "load_by_name"]
