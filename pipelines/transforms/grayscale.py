"""Removal of colors."""

from pipelines.transforms.colors import gray_of
from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, Share


@register("transform", "grayscale")
def grayscale(probability: Share = 1.0) -> ImageStep:
    """Converts to gray: 0.299 red + 0.587 green + 0.114 blue in all three channels."""
    return with_probability(probability, lambda image, seed: gray_of(image))
