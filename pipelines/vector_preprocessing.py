"""Preprocessing of stored vectors: none."""

import dataclasses
from typing import Any

from tfdml.registry.arguments import Tensor


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
