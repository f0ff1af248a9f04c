"""Resizing that ignores the aspect ratio."""

from pipelines.images.crop_and_resize import Cut
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, sides_of


@register("transform", "warp")
def warp(size: ImageSize) -> Cut:
    """Resizes to `size`, and ignores the aspect ratio."""
    sides = sides_of(size)
    return Cut(target=lambda height, width: sides)
