"""Preprocessing of images for a model, the same in training, evaluation, embedding and serving."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self, get_args

from tfdml.registry.arguments import REFUSED, SIZE, ChannelOrder, ImageSize, Interpolation, Tensor, sides_of

# How far the minimum and maximum of a batch may be from 0 and 1, or -1 and 1, to count as scaled to that range. It is
# also how far pixels may be outside of a model's range, as a fraction of the range.
TOLERANCE = 0.05
# How far pixels may be outside of 0 to 255, because some interpolations overshoot.
OVERSHOOT = 32
SCALED = {"0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0)}


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """Settings that prepare an image file for a model's network, saved in the model's file.

    They are the same in evaluation, embedding and serving, so that a model always receives images of the same kind. To
    get the settings of a model, use `Preprocessing.of(model)`.

    Args:
        image_size: Size of the network's input images in pixels: the side of a square, or `(height, width)`.
        transform: Chain of transforms that produces images of this size. Defaults to `"resize_short|center_crop"`.
        mean, std: One number per channel. The network receives `(pixels - mean) / std`, with pixels from 0 to 255.
            Default to 0 and 255, which scale pixels to 0 to 1.
        channels: `"rgb"` or `"bgr"`. Order of the network's channels, of `mean` and of `std`. Defaults to `"rgb"`.
        shrink: Boolean. Whether to decode a JPEG at 1/2, 1/4 or 1/8 of its size if it is resized to that size or less.
            This is faster but changes pixels. Defaults to `False`.
        interpolation: `"bilinear"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`, always with antialiasing. Defaults to
            `"bilinear"`.

    Raises:
        ValueError: If an argument is not valid, for example a `std` below 1, which is for pixels from 0 to 1.
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
            raise ValueError(f"image_size must be {SIZE.words}. Received: image_size={self.image_size!r}.") from None
        for name, values in scaling(self.mean, self.std).items():
            object.__setattr__(self, name, values)
        if self.channels not in ("rgb", "bgr"):
            raise ValueError(f"channels must be 'rgb' or 'bgr'. Received: channels={self.channels!r}.")
        if self.interpolation not in (known := get_args(Interpolation)):
            raise ValueError(
                f"interpolation must be one of {', '.join(known)}. Received: interpolation={self.interpolation!r}."
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
            model: A model with a backbone, for example `tfdml.Single`.
            image_size: Integer or a pair `(height, width)`. If 0, the backbone's image size is used. Defaults to `0`.
            transform, shrink: See `Preprocessing`.
        """
        size = image_size_of(model, image_size)
        return cls(image_size=size, **preprocessing_of(model), transform=transform, shrink=shrink)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape of an image: `(height, width, 3)`."""
        return (*sides_of(self.image_size), 3)

    def get_config(self) -> dict[str, Any]:
        # Tuples become lists, as in JSON files.
        return {name: list(each) if isinstance(each, tuple) else each for name, each in vars(self).items()}

    def range(self) -> tuple[float, float]:
        """Returns the minimum and maximum to which pixels from 0 to 255 are mapped."""
        each = list(zip(self.mean, self.std, strict=True))
        return min((0 - mean) / std for mean, std in each), max((255 - mean) / std for mean, std in each)


def scaling(mean, std):
    """Checks `mean` and `std`, for pixels from 0 to 255; returns them by name as three floats each."""
    found = {}
    for name, values in (("mean", mean), ("std", std)):
        try:
            found[name] = tuple(map(float, values))
        except (TypeError, ValueError):
            found[name] = ()
        if len(found[name]) != 3 or not all(map(math.isfinite, found[name])):
            raise ValueError(f"{name} must be three numbers, one per channel. Received: {name}={values!r}.")
    low, high = min(found["std"]), max(found["std"])
    if low <= 0:
        raise ValueError(f"All numbers in std must be above 0. Received: std={std!r}.")
    if high < 1:
        raise ValueError(
            f"mean and std must be for pixels from 0 to 255. Received: mean={mean!r} and std={std!r}, which are for "
            "pixels from 0 to 1. Multiply both by 255."
        )
    return found


def declared_by(network):
    """Returns what a network declares about its input: `mean`, `std`, `channels`, `image_size` and `interpolation`.

    A network for vectors declares `vector_dims`, the number of their dimensions. A `Backbone` declares all of these.
    Your own network can be any Keras model that declares some of them or none.

    Args:
        network: A backbone, or a model with one.
    """
    names = ("mean", "std", "channels", "image_size", "interpolation", "vector_dims")
    # Embedding models have the attribute `backbone`.
    backbone = getattr(network, "backbone", network)
    # A user's own network may declare only some of them.
    return {name: getattr(backbone, name) for name in names if hasattr(backbone, name)}


def preprocessing_of(network):
    """Returns a network's `mean`, `std`, `channels` and `interpolation`. The default maps RGB pixels to 0 ... 1."""
    default = {"mean": (0.0,) * 3, "std": (255.0,) * 3, "channels": "rgb", "interpolation": "bilinear"}
    declared = declared_by(network)
    return {name: declared.get(name, value) for name, value in default.items()}


def image_size_of(network, asked=0):
    """Returns `asked`, or the network's image size if `asked` is 0, in the format of `Preprocessing`."""
    size = asked or declared_by(network).get("image_size")
    if size is None:
        raise ValueError(
            "image_size is missing, because the backbone does not declare its image size. Expected a size in pixels. "
            "Pass image_size=..., or --image_size=... on the command line."
        )
    return size


def why_not_prepared(low, high, own):
    """Returns why pixels from `low` to `high` cannot be a model's input, or None.

    Args:
        low, high: Minimum and maximum of a batch of images.
        own: The model's range, see `Preprocessing.range`.
    """
    spare = TOLERANCE * (own[1] - own[0])
    if low < own[0] - spare or high > own[1] + spare:
        return "Pixels are outside of this model's range"
    for name, ends in SCALED.items():
        fills = all(abs(found - end) <= TOLERANCE for found, end in zip((low, high), ends, strict=True))
        inside = ends[0] <= low and high <= ends[1]
        is_own = all(abs(mine - end) <= 2 * TOLERANCE for mine, end in zip(own, ends, strict=True))
        if fills and inside and not is_own:
            return f"Pixels seem to be scaled to {name}, which is not this model's range"
    return None


def why_no_pixels(image, position):
    """Returns why an array cannot be pixels from 0 to 255, or None; raises a ValueError if it is not an image.

    Args:
        image: Array.
        position: Index of the image, for messages.
    """
    if image.ndim != 3 or image.shape[-1] != 3 or not image.size:
        raise ValueError(
            f"Image {position} must have the shape [height, width, 3]. Received: shape {image.shape}. Repeat the "
            "channel of a gray image three times."
        )
    if image.dtype.name == "uint8":
        return None
    low, high = float(image.min()), float(image.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"Image {position} has pixels that are NaN or infinite. Expected finite numbers.")
    # A nearly black image has integers 0 and 1. Overshoot below 0 only occurs next to bright pixels.
    scaled = low < 0 and high <= OVERSHOOT or high <= 1 and (image != image.round()).any()
    if scaled or low < -OVERSHOOT or high > 255 + OVERSHOOT:
        return (
            f"Image {position} has pixels from {low:.3g} to {high:.3g}. Expected pixels from 0 to 255, before the "
            "model's own preprocessing."
        )
    return None


@dataclasses.dataclass(frozen=True)
class VectorPreprocessing:
    """Settings of a model that accepts vectors `[B, dims]` instead of images, saved in the model's file.

    It is also its own `Preprocessor`.

    Args:
        dims: Number of dimensions.
    """

    dims: int

    @property
    def image_shape(self) -> tuple[int]:
        """Shape of a vector: `(dims,)`."""
        return (self.dims,)

    def get_config(self) -> dict[str, Any]:
        return {"dims": self.dims}

    def range(self) -> None:
        """Returns None, because vectors may contain any numbers."""

    def normalize(self, vectors: Tensor) -> Tensor:
        """Returns vectors unchanged."""
        return vectors

    def seen_part(self, *sides: int) -> None:
        """Returns None, because vectors have no positions that could be cropped."""
        del sides
