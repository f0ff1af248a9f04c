"""Resizing to a square."""

from pipelines.images.cut import Cut
from tfdml.registry import register
from tfdml.registry.arguments import Side


@register("transform", "warp")
def warp(size: Side):
    """Resizes to `size` × `size`, and ignores the aspect ratio."""
    return Cut(target=lambda height, width: (size, size))
