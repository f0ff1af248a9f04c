"""Resizing to a square."""

from pipelines.images.cut import Cut
from tfdml.registry.arguments import MOST_SIDE, integer
from tfdml.registry.parts import register


@register("transform", "warp", size=integer(1, at_most=MOST_SIDE))
def warp(size: int) -> Cut:
    """Resizes to `size` × `size`, and ignores the aspect ratio."""
    return Cut(target=lambda height, width: (size, size))
