"""Crops of a random size and shape."""

from pipelines.images.cut import Cut
from pipelines.transforms.windows import first_fitting
from tfdml.registry.arguments import MOST_SIDE, integer, interval, number
from tfdml.registry.parts import register


@register(
    "transform",
    "random_resized_crop",
    size=integer(1, at_most=MOST_SIDE),
    area=interval(number(above=0, at_most=1)),
    aspect=interval(number(above=0)),
)
def random_resized_crop(
    size: int, area: tuple[float, float] = (0.08, 1.0), aspect: tuple[float, float] = (3 / 4, 4 / 3)
) -> Cut:
    """Crops a random fraction of the area at a random aspect ratio, and resizes it to `size` × `size`."""

    def window(height, width, seed):
        # The whole image where no window fits, as in very narrow ones.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: (size, size), random=True)
