"""Types for signatures: arrays by what is in them, words that several arguments take, and Keras' own arguments.

Shapes are in words: N rows, each an image; D dimensions of an embedding.
"""

import os
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from numpy.typing import ArrayLike

from tfdml.registry.arguments import path

# A tensor of Keras' backend, or a symbolic one: no type covers those of all backends.
Tensor: TypeAlias = Any
# `[N]`: the class of each image, integers or texts.
Labels: TypeAlias = ArrayLike
# `[N, D]`: the embedding of each image.
Embeddings: TypeAlias = ArrayLike
# `[N]`: numbers of images, or a mask of them.
Rows: TypeAlias = ArrayLike
# A random step of a transform: `(image [H, W, 3], seed [2]) -> image`.
ImageStep: TypeAlias = Callable[[Tensor, Tensor], Tensor]
FilePath: TypeAlias = Annotated[str | os.PathLike[str], path()]
# What Keras draws initial values or regularizes with: an object, or its name.
Initializer: TypeAlias = Any
Regularizer: TypeAlias = Any
DTypePolicy: TypeAlias = Any
# Number of the step that a run is in, read from the outside.
StepCounter: TypeAlias = Callable[[], int]
Verbosity: TypeAlias = bool | Literal["auto", 0, 1, 2]
Distance: TypeAlias = Literal["cosine", "euclidean"]
ChannelOrder: TypeAlias = Literal["rgb", "bgr"]
Interpolation: TypeAlias = Literal["bilinear", "bicubic", "lanczos3", "lanczos5"]
# What of a batch normalization stays as it is in training.
FrozenBatchNorm: TypeAlias = Literal["none", "statistics", "all"]
PoolingKind: TypeAlias = Literal["avg", "max", "avg+max", "gem", "first"]
# What stands for an image in a transformer: the token of the whole image, the mean of those of patches, or both.
TokenKind: TypeAlias = Literal["class", "patches", "both"]
FeatureNorm: TypeAlias = Literal["none", "batch", "layer"]
# Of manifold similarities.
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
