"""Resizing to a square."""

from pipelines.images.crop_and_resize import Cut
from tfdml.registry.arguments import Side
from tfdml.registry.parts import register


@register("transform", "warp")
def warp(size: Side) -> Cut:
    """Resizes to `size` × `size`, and ignores the aspect ratio."""
    return Cut(target=lambda height, width: (size, size))
