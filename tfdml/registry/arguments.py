"""Types and ranges of arguments, such as `margin: Annotated[float, number(at_least=0)] = 0.2`."""

import dataclasses
import difflib
import math
import numbers
import os
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypedDict, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

# Errors that `Expected.read` may raise for a wrong value.
REFUSED = (ValueError, TypeError, OverflowError)


@dataclasses.dataclass(frozen=True)
class Expected:
    """The type and range of an argument.

    Args:
        words: description in errors, which follows "expects margin to be".
        read: function that returns the converted value or raises one of `REFUSED`.
        each: description of several such values.
    """

    words: str
    read: Callable
    each: str = ""


def expected_by(kind: Any) -> Expected | None:
    """Returns the `Expected` of a type such as `int | None`, or None if the type allows any value, such as `Any`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        # If an annotated type is annotated again, the outermost rule is the last one.
        rules = [rule for rule in inner[1:] if isinstance(rule, Expected)]
        return rules[-1] if rules else expected_by(inner[0])
    if origin is Literal:
        return one_of(*inner)
    if origin in (Union, types.UnionType):
        alternatives = [expected_by(alternative) for alternative in inner if alternative is not types.NoneType]
        if None in alternatives:
            return None
        expected = alternatives[0] if len(alternatives) == 1 else either(*alternatives)
        return optional(expected) if types.NoneType in inner else expected
    if origin is tuple and len(inner) == 2 and inner[1] is ...:
        element = expected_by(inner[0])
        return element and several(element)
    plain = {bool: boolean, int: integer, float: number, str: _any_text}.get(kind) if isinstance(kind, type) else None
    return plain and plain()


def number(*, at_least=None, above=None, at_most=None, below=None, noun="number"):
    """A finite number, converted to float. True and False are errors. Errors call it `noun`, such as "angle"."""
    return _number(noun, numbers.Real, float, at_least, above, at_most, below)


def integer(at_least=None, *, at_most=None):
    """An integer. True and False are errors."""
    return _number("integer", numbers.Integral, int, at_least, None, at_most, None)


def boolean():
    """True or False."""
    return Expected("True or False", lambda value: bool(_of_type(value, bool | np.bool_)), each="True or False")


def text():
    """A non-empty string."""
    return Expected("text", lambda value: _refuse_if(not _of_type(value, str), value), each="texts")


def _any_text():
    return Expected("text", lambda value: _of_type(value, str), each="texts")


def path():
    """The path of a file or folder. An empty path means that there is none."""
    return Expected("a path", lambda value: _of_type(value, str | os.PathLike), each="paths")


def one_of(*choices):
    """One of several values."""
    listed = ", ".join(map(repr, choices))

    def read(value):
        # The type is compared as well, because True equals 1.
        equal = [choice for choice in choices if type(choice) is type(value) and choice == value]
        return equal[0] if equal else _refuse(value)

    return Expected(f"one of {listed}", read, each=f"some of {listed}")


def instance(kind, words, each=""):
    """An instance of a class, or of one of several classes. Errors use `words` for one and `each` for several."""
    return Expected(words, lambda value: _of_type(value, kind), each)


def read_by(read, words):
    """Any value for which `read` raises no `ValueError` or `TypeError`; the value is not converted."""

    def check(value):
        read(value)
        return value

    return Expected(words, check)


def optional(expected):
    """None, or a value as expected."""
    return Expected(f"None or {expected.words}", lambda value: None if value is None else expected.read(value))


def or_tensor(expected):
    """A value as expected, or a tensor or variable, which may have no value while a graph is traced."""

    def read(value):
        # Tensors of every library have a shape.
        is_tensor = hasattr(value, "shape") and not isinstance(value, numbers.Number)
        return value if is_tensor else expected.read(value)

    return Expected(expected.words, read)


def either(*alternatives):
    """A value that fits one of several declarations. The first one that fits converts it."""

    def read(value):
        for expected in alternatives:
            try:
                return expected.read(value)
            except REFUSED:
                continue
        return _refuse(value)

    return Expected(", or ".join(expected.words for expected in alternatives), read)


def several(expected, at_least=1):
    """A list or tuple of such values, converted to a tuple."""
    count = {0: "", 1: " one or more"}.get(at_least, f" {at_least} or more")

    def read(value):
        values = tuple(expected.read(each) for each in _of_type(value, list | tuple))
        return _refuse_if(len(values) < at_least, values)

    return Expected(f"a tuple of{count} {expected.each}", read)


def interval(expected):
    """A pair (low, high) of such values with low <= high, converted to a tuple."""

    def read(value):
        low, high = (expected.read(each) for each in _of_type(value, list | tuple))
        return _refuse_if(low > high, (low, high))

    return Expected(f"a pair (low, high) of {expected.each}", read)


def mapping(expected, keys="text"):
    """A dictionary from strings to such values. Errors call the strings `keys`."""

    def read(value):
        return {_of_type(key, str): expected.read(each) for key, each in _of_type(value, Mapping).items()}

    return Expected(f"a dictionary from {keys} to {expected.each}", read)


def _number(noun, kind, convert, at_least, above, at_most, below):
    def read(value):
        converted = convert(_refuse_if(isinstance(value, bool), _of_type(value, kind)))
        fits = (
            -math.inf < converted < math.inf
            and (at_least is None or converted >= at_least)
            and (above is None or converted > above)
            and (at_most is None or converted <= at_most)
            and (below is None or converted < below)
        )
        return _refuse_if(not fits, converted)

    limits = _limits(
        *(f"{limit:.4g}" if isinstance(limit, float) else limit for limit in (at_least, above, at_most, below))
    )
    article = "an" if noun[0] in "aeiou" else "a"
    first, *rest = noun.split()
    return Expected(f"{article} {noun}{limits}", read, each=" ".join([f"{first}s", *rest]) + limits)


def _limits(at_least, above, at_most, below):
    if at_least is not None and at_most is not None:
        return f" from {at_least} to {at_most}"
    low = f"of {at_least} or more" if at_least is not None else f"above {above}" if above is not None else ""
    high = f"at most {at_most}" if at_most is not None else f"below {below}" if below is not None else ""
    return "".join([" ", *filter(None, (low, " and " * bool(low and high), high))]) if low or high else ""


def _of_type(value, kind):
    return value if isinstance(value, kind) else _refuse(value)


def _refuse_if(wrong, value):
    return _refuse(value) if wrong else value


def _refuse(value):
    raise ValueError(value)


# Types with their ranges.
Positive = Annotated[float, number(above=0)]
NotNegative = Annotated[float, number(at_least=0)]
Text = Annotated[str, text()]
Count = Annotated[int, integer(1)]
Seed = Annotated[int, integer(0)]
Share = Annotated[float, number(at_least=0, at_most=1)]
Brightness = Annotated[float, number(at_least=0, at_most=255)]


# A tensor of Keras' backend, or a symbolic tensor. No type covers the tensors of all backends.
Tensor: TypeAlias = Any
# `[N]`: the class of each image, as integers or texts.
Labels: TypeAlias = ArrayLike
# `[N, D]`: the embedding of each image.
Embeddings: TypeAlias = ArrayLike
# `[N]`: indices of images, or a mask.
Rows: TypeAlias = ArrayLike
# A random step of a transform: `(image [H, W, 3], seed [2]) -> image`.
ImageStep: TypeAlias = Callable[[Tensor, Tensor], Tensor]
FilePath: TypeAlias = Annotated[str | os.PathLike[str], path()]
# A Keras initializer or regularizer, as an object or by name.
Initializer: TypeAlias = Any
Regularizer: TypeAlias = Any
DTypePolicy: TypeAlias = Any
# Returns the current step of a run.
StepCounter: TypeAlias = Callable[[], int]
Verbosity: TypeAlias = bool | Literal["auto", 0, 1, 2]
Distance: TypeAlias = Literal["cosine", "euclidean"]
ChannelOrder: TypeAlias = Literal["rgb", "bgr"]
Interpolation: TypeAlias = Literal["bilinear", "bicubic", "lanczos3", "lanczos5"]
# Which parts of a batch normalization do not change during training.
FrozenBatchNorm: TypeAlias = Literal["none", "statistics", "all"]
PoolingKind: TypeAlias = Literal["avg", "max", "avg+max", "gem", "first"]
# What represents an image in a transformer: the token of the whole image, the mean of the patch tokens, or both.
TokenKind: TypeAlias = Literal["class", "patches", "both"]
FeatureNorm: TypeAlias = Literal["none", "batch", "layer"]
# Arguments of manifold similarities.
View: TypeAlias = Literal["intrinsic", "contextual"]
Affinity: TypeAlias = Literal["clipped", "shifted"]


class ModelArguments(TypedDict, total=False):
    """Arguments of every Keras model."""

    name: str | None
    trainable: bool
    dtype: DTypePolicy


class LayerArguments(ModelArguments, total=False):
    """Arguments of every Keras layer."""

    activity_regularizer: Regularizer
    autocast: bool


def nearest(word, words):
    """Returns a suggestion for an unknown word, or an empty string if no word is similar."""
    closest = _closest(word, words)
    return f" Did you mean {closest!r}?" if closest else ""


def meant(name, *modules):
    """Returns a suggestion for a name that a module does not have, or an empty string.

    Suggestions come from the `__all__` of the modules, and from their `INSTEAD`, which maps names from other packages
    to tfdml's names.
    """
    written = {}
    for module in map(vars, reversed(modules)):
        texts = {public: public for public in module.get("__all__", ())} | module.get("INSTEAD", {})
        written |= {public: f"{module['__name__']}.{text}" for public, text in texts.items()}
    closest = None if name.startswith("_") else _closest(name, written)
    return f" Did you mean {written[closest]}?" if closest else ""


def guide(*packages):
    """Makes packages and their modules suggest a name in errors about an unknown name."""
    for package in packages:
        inside = f"{package.__name__}."
        for module in [package, *(module for name, module in list(sys.modules.items()) if name.startswith(inside))]:
            module.__class__ = Guide


class Guide(types.ModuleType):
    """A module with errors that suggest a name, or a class if the module itself is called."""

    def __getattr__(self, name):
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}.{meant(name, self)}")

    def __call__(self, *args, **kwargs):
        package, _, name = self.__name__.rpartition(".")
        raise TypeError(f"{self.__name__} is a module, not a class.{meant(name, sys.modules[package])}")


def same(word, words):
    """Returns the first of the words that differs only in case, hyphens, underscores or a final "loss", or None."""

    def simple(name):
        return re.sub(r"[-_ ]", "", name.lower()).removesuffix("loss")

    # If a class and a function share a name, the first one is the class.
    return next((other for other in words if simple(other) == simple(word)), None)


def _closest(word, words):
    """Returns the word that differs only in spelling (see `same`), else the most similar word, or None."""
    return same(word, words) or next(iter(difflib.get_close_matches(word, list(words), n=1)), None)


# Side of an image in pixels after it is resized or cropped. It is limited because specs can come from other people.
MOST_SIDE = 4096
SIDE = integer(1, at_most=MOST_SIDE)


class Sides(NamedTuple):
    """Height and width of images in pixels, written as `256x128`."""

    height: int
    width: int

    def __str__(self):
        return f"{self.height}x{self.width}"


def sides_of(size: int | tuple[int, int]) -> Sides:
    """Returns the height and width of a size, which is the side of a square or a pair."""
    return Sides(size, size) if isinstance(size, int) else Sides(*size)


def saved_size(height: int, width: int) -> int | list[int]:
    """Returns a size as files store it: the side of a square, or a list of height and width."""
    return height if height == width else [height, width]


def _read(value):
    if not isinstance(value, list | tuple):
        return SIDE.read(value)
    height, width = map(SIDE.read, value)
    # A square becomes one number, so that both ways to write it lead to the same settings and files.
    return height if height == width else Sides(height, width)


SIZE = Expected(f"{SIDE.words}, the side of a square, or a pair of such, (height, width)", _read)
ImageSize = Annotated[int | tuple[int, int], SIZE]
