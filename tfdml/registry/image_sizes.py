"""Sizes of images: the side of a square, or height and width."""

from typing import Annotated, NamedTuple

from tfdml.registry.arguments import Expected, integer

# Side of an image, in pixels, after it is resized or cropped: specs are in files of others, too.
MOST_SIDE = 4096
SIDE = integer(1, at_most=MOST_SIDE)


class Sides(NamedTuple):
    """Height and width of images in pixels; as text `256x128`."""

    height: int
    width: int

    def __str__(self):
        return f"{self.height}x{self.width}"


def sides_of(size: int | tuple[int, int]) -> Sides:
    """Returns height and width of a size: the side of a square, or a pair."""
    return Sides(size, size) if isinstance(size, int) else Sides(*size)


def saved_size(height: int, width: int) -> int | list[int]:
    """Returns a size as files have it: the side of a square, or a list of height and width."""
    return height if height == width else [height, width]


def _read(value):
    if not isinstance(value, list | tuple):
        return SIDE.read(value)
    height, width = map(SIDE.read, value)
    # A square has one number, so that its settings and files are the same whichever way it was given.
    return height if height == width else Sides(height, width)


SIZE = Expected(f"{SIDE.words}, the side of a square, or a pair of such, (height, width)", _read)
ImageSize = Annotated[int | tuple[int, int], SIZE]
