"""Preprocessing of images for a model, the same in training, evaluation, embedding and serving."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self, get_args

from tfdml.registry.arguments import REFUSED, SIZE, ChannelOrder, ImageSize, Interpolation, Tensor, sides_of

# How far the minimum and maximum of a batch scaled to 0 ... 1 or -1 ... 1 may be from these; and, as a fraction of a
# model's range, how far pixels may be outside of it.
TOLERANCE = 0.05
# Tolerated excess over 0 to 255, for images that were resized with overshoot.
OVERSHOOT = 32
SCALED = {"0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0)}


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of an image file before a model's network sees it; saved in the model's file.

    Args:
        image_size: size of the network's input images in pixels: the side of a square, or (height, width).
        transform: chain of transforms of `pipelines.transforms` that produces images of this size.
        mean, std: one number per channel; the network takes `(pixels - mean) / std` of pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the network's channels and of `mean` and `std`.
        shrink: whether to decode a JPEG at 1/2, 1/4 or 1/8 of its size if it is resized to that or less.
        interpolation: "bilinear", "bicubic", "lanczos3" or "lanczos5", always with antialiasing.
    """

    image_size: ImageSize
    transform: str = "resize_short|center_crop"
    mean: Sequence[float] = (0.0,) * 3
    std: Sequence[float] = (255.0,) * 3
    channels: ChannelOrder = "rgb"
    shrink: bool = False
    interpolation: Interpolation = "bilinear"

    def __post_init__(self):
        try:
            object.__setattr__(self, "image_size", SIZE.read(self.image_size))
        except REFUSED:
            raise ValueError(f"Expected image_size to be {SIZE.words}; received {self.image_size!r}.") from None
        for name, values in scaling(self.mean, self.std).items():
            object.__setattr__(self, name, values)
        if self.channels not in ("rgb", "bgr"):
            raise ValueError(f"Expected channels in the order 'rgb' or 'bgr', received {self.channels!r}.")
        if self.interpolation not in (known := get_args(Interpolation)):
            raise ValueError(
                f"Expected interpolation to be one of {', '.join(known)}; received {self.interpolation!r}."
            )

    @classmethod
    def of(
        cls,
        model: Any,
        image_size: int | tuple[int, int] = 0,
        *,
        transform: str = "resize_short|center_crop",
        shrink: bool = False,
    ) -> Self:
        """Creates the preprocessing that a model's backbone declares.

        Args:
            model: model of a method.
            image_size: as of `Preprocessing`; 0: the backbone's own.
            transform, shrink: as of `Preprocessing`.
        """
        size = image_size_of(model, image_size)
        return cls(image_size=size, **preprocessing_of(model), transform=transform, shrink=shrink)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """The shape of an image: `(height, width, 3)`."""
        return (*sides_of(self.image_size), 3)

    def get_config(self) -> dict[str, Any]:
        # Lists, as files have them.
        return {name: list(each) if isinstance(each, tuple) else each for name, each in vars(self).items()}

    def range(self) -> tuple[float, float]:
        """Returns the minimum and maximum to which pixels from 0 to 255 are mapped."""
        each = list(zip(self.mean, self.std, strict=True))
        return min((0 - mean) / std for mean, std in each), max((255 - mean) / std for mean, std in each)


def scaling(mean, std):
    """Returns `mean` and `std` by name, each three floats, after checking them.

    Args:
        mean, std: one number per channel, for pixels from 0 to 255.
    """
    found = {}
    for name, values in (("mean", mean), ("std", std)):
        try:
            found[name] = tuple(map(float, values))
        except (TypeError, ValueError):
            found[name] = ()
        if len(found[name]) != 3 or not all(map(math.isfinite, found[name])):
            raise ValueError(f"Expected {name} to be three numbers, one per channel; received {values!r}.")
    low, high = min(found["std"]), max(found["std"])
    if low <= 0:
        raise ValueError(f"Expected std above 0, received {std!r}.")
    if high < 1:
        raise ValueError(
            f"mean={mean!r} and std={std!r} are for pixels from 0 to 1. Multiply both by 255, because pixels are from "
            "0 to 255 here."
        )
    return found


def declared_by(network):
    """Returns what a network declares of its input: `mean`, `std`, `channels`, `image_size` and `interpolation`.

    Of a network that takes vectors it is `vector_dims`, the number of their dimensions.

    A `Backbone` declares all of them. A user's own network may be any Keras model and declare nothing; nobody else
    asks whether it does.

    Args:
        network: a backbone, or a model with one.
    """
    names = ("mean", "std", "channels", "image_size", "interpolation", "vector_dims")
    # Models of methods have one.
    backbone = getattr(network, "backbone", network)
    # A user's own declares some, or none.
    return {name: getattr(backbone, name) for name in names if hasattr(backbone, name)}


def preprocessing_of(network):
    """Returns `mean`, `std`, `channels` and `interpolation` of a network; by default those that map RGB to 0 ... 1."""
    default = {"mean": (0.0,) * 3, "std": (255.0,) * 3, "channels": "rgb", "interpolation": "bilinear"}
    declared = declared_by(network)
    return {name: declared.get(name, value) for name, value in default.items()}


def image_size_of(network, asked=0):
    """Returns the size of the images, as `Preprocessing` has it: `asked`, or the network's own if that is 0."""
    size = asked or declared_by(network).get("image_size")
    if size is None:
        raise ValueError(
            "image_size is missing, because the backbone does not declare its image size. Expected a size in pixels. "
            "Pass image_size=..., in a command --image_size=..."
        )
    return size


def why_not_prepared(low, high, own):
    """Returns why pixels from `low` to `high` cannot be a model's input, or None.

    Args:
        low, high: minimum and maximum of a batch of images.
        own: the model's range, see `Preprocessing.range`.
    """
    spare = TOLERANCE * (own[1] - own[0])
    if low < own[0] - spare or high > own[1] + spare:
        return "Pixels are outside of this model's range"
    for name, ends in SCALED.items():
        fills = all(abs(found - end) <= TOLERANCE for found, end in zip((low, high), ends, strict=True))
        inside = ends[0] <= low and high <= ends[1]
        is_own = all(abs(mine - end) <= 2 * TOLERANCE for mine, end in zip(own, ends, strict=True))
        if fills and inside and not is_own:
            return f"Pixels seem scaled to {name}, which is not this model's range"
    return None


def why_no_pixels(image, position):
    """Returns why an array cannot be pixels from 0 to 255, or None; raises a ValueError if it is not an image.

    Args:
        image: array.
        position: its number among others, for messages.
    """
    if image.ndim != 3 or image.shape[-1] != 3 or not image.size:
        raise ValueError(
            f"Image {position}: expected pixels [height, width, 3], received shape {image.shape}. Repeat the channel "
            "of a gray image."
        )
    if image.dtype.name == "uint8":
        return None
    low, high = float(image.min()), float(image.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"Image {position} has pixels that are NaN or infinite.")
    # A nearly black image has integers 0 and 1. Overshoot goes below 0 only where there are bright pixels, too.
    scaled = low < 0 and high <= OVERSHOOT or high <= 1 and (image != image.round()).any()
    if scaled or low < -OVERSHOOT or high > 255 + OVERSHOOT:
        return (
            f"Image {position} has pixels from {low:.3g} to {high:.3g}; expected 0 to 255, before the model's own "
            "preprocessing."
        )
    return None


@dataclasses.dataclass(frozen=True)
class VectorPreprocessing:
    """Says that a model takes vectors `[B, dims]` as they are, in place of images; saved in the model's file.

    It is its own `Preprocessor`.

    Args:
        dims: number of dimensions.
    """

    dims: int

    @property
    def image_shape(self) -> tuple[int]:
        """The shape of what stands for an image: `(dims,)`."""
        return (self.dims,)

    def get_config(self) -> dict[str, Any]:
        return {"dims": self.dims}

    def range(self) -> None:
        """Vectors may have any numbers."""

    def normalize(self, vectors: Tensor) -> Tensor:
        """Returns vectors unchanged."""
        return vectors

    def seen_part(self, *sides: int) -> None:
        """A vector has no places, of which one could see a part."""
        del sides
