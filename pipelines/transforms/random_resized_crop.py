"""Crops of a random size and shape."""

from typing import Annotated

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import first_fitting
from tfdml.registry.arguments import Side, interval, number
from tfdml.registry.parts import register


@register("transform", "random_resized_crop")
def random_resized_crop(
    size: Side,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.08, 1.0),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] = (3 / 4, 4 / 3),
) -> Cut:
    """Crops a random fraction of the area at a random aspect ratio, and resizes it to `size` × `size`."""

    def window(height, width, seed):
        # The whole image where no window fits, as in very narrow ones.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: (size, size), random=True)
