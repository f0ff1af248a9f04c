"""Preprocessing of images for a model, the same in training, evaluation, embedding and serving."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self, TypedDict, Unpack, get_args

import numpy as np
import tensorflow as tf

from pipelines.images.decoding import decode, decode_cut
from pipelines.images.resizing import Cut
from tfdml.registry import create_chain
from tfdml.registry.arguments import REFUSED, SIZE, ChannelOrder, ImageSize, Interpolation, Tensor, sides_of
from tfdml.registry.fields import Declared

# How far the minimum and maximum of a batch scaled to 0 ... 1 or -1 ... 1 may be from these; and, as a fraction of a
# model's range, how far pixels may be outside of it.
TOLERANCE = 0.05
# Tolerated excess over 0 to 255, for images that were resized with overshoot.
OVERSHOOT = 32
SCALED = {"0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0)}


class PreparationArguments(TypedDict, total=False):
    """Arguments of `Preprocessing` that no backbone declares."""

    transform: str
    shrink: bool


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
    def of(cls, model: Any, image_size: int | tuple[int, int] = 0, **arguments: Unpack[PreparationArguments]) -> Self:
        """Creates the preprocessing that a model's backbone declares.

        Args:
            model: model of a method.
            image_size: as of `Preprocessing`; 0: the backbone's own.
            **arguments: `transform` and `shrink`.
        """
        size = image_size_of(model, image_size)
        return cls(image_size=size, **preprocessing_of(model), **arguments)

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
        raise ValueError(f"Image {position}: expected pixels [height, width, 3], received shape {image.shape}.")
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


class Preprocessor(Declared):
    """Decodes, transforms and normalizes an image: a function `(contents, seed, box=None) -> image`.

    A cache may come in between: `cacheable_pixels` gives the image after the first steps, those that do not depend on
    the seed, and `from_cached_pixels` goes on from there.

    Args:
        transform: chain of transform specs; their `size` is `image_size` where they do not set it.
        image_size: size of the images that the chain ends with, as of `Preprocessing`.
        mean, std: per-channel numbers; the result is `(pixels - mean) / std` with pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the result's channels and of `mean` and `std`.
        shrink: decode JPEGs at 1/2, 1/4 or 1/8 where they are resized to that or less: faster, other pixels.
        interpolation: how transforms resize: "bilinear", "bicubic", "lanczos3" or "lanczos5".

    Example:
        preprocess = Preprocessor("resize_short|center_crop", image_size=224, mean=(0, 0, 0), std=(255, 255, 255))
        image = preprocess(tf.io.read_file("car.jpg"), seed=tf.constant([0, 0], tf.int64))
    """

    def __init__(
        self,
        transform,
        *,
        image_size: ImageSize,
        mean,
        std,
        channels: ChannelOrder = "rgb",
        shrink=False,
        interpolation: Interpolation = "bilinear",
    ):
        steps = _resizing(create_chain("transform", transform, size=image_size), interpolation)
        if not shrink and len(steps) > 1 and all(isinstance(step, Cut) for step in steps[:2]):
            # Pixels that the second step does not need are not computed.
            both = steps[0].then(steps[1])
            steps = [both, *steps[2:]] if both else steps
        self._steps, self._begins_with_cut = steps, isinstance(steps[0], Cut)
        self._transform, self._channels, self._shrink = transform, channels, shrink
        self._shape = (*sides_of(image_size), 3)
        # As large as the image: where TensorFlow must repeat three numbers it takes five times as long.
        mean, std = (np.broadcast_to(np.asarray(each, np.float32), self._shape).copy() for each in (mean, std))
        self._mean, self._std = mean, std
        # Tells cached pixels of this preprocessor from those of another.
        self.name = f"{transform} {image_size} {shrink}{'' if interpolation == 'bilinear' else f' {interpolation}'}"
        depends_on_seed = [not isinstance(step, Cut) or step.random for step in self._steps]
        # How many steps at the start do not depend on the seed.
        self._cacheable_steps = [*depends_on_seed, True].index(True)

    @classmethod
    def of(cls, preprocessing):
        """Creates the preprocessor that a `Preprocessing` describes; a `VectorPreprocessing` is its own."""
        if isinstance(preprocessing, VectorPreprocessing):
            return preprocessing
        return cls(**dataclasses.asdict(preprocessing))

    def __call__(self, contents, seed, box=None):
        """Preprocesses the contents of a file (scalar string), with a seed (`[2]` int64) and a box as in `decode`."""
        return self.normalize(self.pixels(contents, seed, box))

    def pixels(self, contents, seed, box=None):
        """Decodes and transforms an image: what `normalize` takes, with pixels from 0 to 255."""
        return self._run(self._begin(contents, seed, box), seed, int(self._begins_with_cut), len(self._steps))

    def from_pixels(self, image, seed):
        """Preprocesses an image that is decoded already, `[H, W, 3]` with pixels from 0 to 255: the same bits."""
        return self.normalize(self._run(image, seed, 0, len(self._steps)))

    @property
    def image_shape(self):
        """The shape of the images: `(height, width, 3)`."""
        return self._shape

    @property
    def cacheable_type(self):
        """The type of `cacheable_pixels`."""
        return tf.float32 if self._cacheable_steps else tf.uint8

    def cacheable_pixels(self, contents, box=None):
        """Decodes an image, and applies the first steps of the transform, those that do not depend on a seed."""
        if not self._cacheable_steps:
            if self._shrink and self._begins_with_cut:
                raise ValueError(
                    "Pixels cannot be cached where a random crop decides how small an image is decoded. Use "
                    "--cache=bytes, or --noshrink_decoding."
                )
            return decode(contents, box)
        seed = tf.zeros([2], tf.int64)
        return self._run(self._begin(contents, seed, box), seed, 1, self._cacheable_steps)

    def from_cached_pixels(self, pixels, seed):
        """Preprocesses an image from its `cacheable_pixels`."""
        # A tensor that was stored has lost its shape.
        first = tf.function(lambda image: self._run(image, tf.zeros([2], tf.int64), 0, self._cacheable_steps))
        shape = first.get_concrete_function(tf.TensorSpec([None, None, 3])).structured_outputs.shape
        image = self._run(tf.ensure_shape(pixels, shape), seed, self._cacheable_steps, len(self._steps))
        return self.normalize(image)

    def seen_part(self, height, width):
        """Finds the part of an image of this size that the result shows.

        Returns:
            Its left, top, right and bottom, as fractions of the image's width and height; below 0 and above 1 where the
            result is padded. None where it depends on pixels or on the seed.
        """
        if any(not isinstance(step, Cut) or step.random for step in self._steps):
            return None
        # Pixels that tell where they lie. Padding is 0 or more.
        across, down = ((np.arange(count) + 0.5) / count for count in (width, height))
        pixels = np.stack(np.broadcast_arrays(across, down[:, None], -1.0), axis=-1).astype(np.float32)
        seen = tf.constant(pixels)
        # No other interpolation takes numbers below 0.
        for step in _resizing(self._steps, "bilinear"):
            seen = step(seen, tf.zeros([2], tf.int64))
        seen = seen.numpy()
        padding = seen[..., 2] > -0.5
        (left, right), (top, bottom) = (
            _ends(np.ma.array(seen[..., channel], mask=padding).mean(axis=channel)) for channel in (0, 1)
        )
        return left, top, right, bottom

    def normalize(self, images):
        """Normalizes an image that the transform has made, or a batch of such images, with pixels from 0 to 255."""
        if images.shape[-3:] != self._shape:
            raise ValueError(
                f"The transform {self._transform!r} ends with images of shape {tuple(images.shape)}; expected "
                f"{self._shape}. End it with a crop, or with warp."
            )
        if self._channels == "bgr":
            images = tf.reverse(images, axis=[-1])
        return (images - self._mean) / self._std

    def _begin(self, contents, seed, box):
        if self._begins_with_cut:
            return decode_cut(contents, self._steps[0], _seed_of(seed, 0), box=box, shrink=self._shrink)
        return decode(contents, box)

    def _run(self, image, seed, first, end):
        for number in range(first, end):
            image = self._steps[number](tf.cast(image, tf.float32), _seed_of(seed, number))
        return image


def _resizing(steps, interpolation):
    """Returns steps that resize in this way."""
    return [dataclasses.replace(step, interpolation=interpolation) if isinstance(step, Cut) else step for step in steps]


def _ends(values):
    """Returns what values `[n]` of a line are before its first and after its last place, some of them masked."""
    known = np.ma.flatnotmasked_edges(values)
    # Near the ends of an image, resizing repeats its last pixels.
    aside = (known[1] + 1 - known[0]) // 8
    inner = np.arange(known[0] + aside, known[1] + 1 - aside)
    slope, start = np.polyfit(inner + 0.5, values[inner], 1)
    return float(start), float(start + slope * len(values))


def _seed_of(seed, number):
    """Returns the seed of a step."""
    return tf.random.experimental.stateless_fold_in(seed, number)
