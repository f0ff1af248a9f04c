"""Weights of backbones in files: published ones of other frameworks, and Keras' own by name."""

from tfdml.weights.by_name import load_by_name
from tfdml.weights.sources import SOURCES, advice, convert

__all__ = ["SOURCES", "advice", "convert", "load_by_name"]
