"""Crops of a random size and shape."""

from typing import Annotated

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import first_fitting
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, interval, number, sides_of

# By how much a crop is narrower or wider than the result.
STRETCHES = (3 / 4, 4 / 3)


@register("transform", "random_resized_crop")
def random_resized_crop(
    size: ImageSize,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.08, 1.0),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] | None = None,
) -> Cut:
    """Crops a random fraction of the area at a random aspect ratio, and resizes it to `size`.

    Args:
        size: of the result.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height of the crop. Default: 3/4 to 4/3 of that of the result.
    """
    sides = sides_of(size)
    if aspect is None:
        # Of a square exactly `STRETCHES`.
        aspect = tuple(stretch * (sides.width / sides.height) for stretch in STRETCHES)

    def window(height, width, seed):
        # The whole image where no window fits, as in very narrow ones.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: sides, random=True)
