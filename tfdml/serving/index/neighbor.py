"""`Neighbor`: an image that a search has found."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Neighbor:
    """An image that was found.

    Args:
        id: its number in the index, which no other image gets.
        path: its file.
        label: text, or None.
        similarity: cosine similarity to the query; minus the Euclidean distance of embeddings that have no unit length.
    """

    id: int
    path: str
    label: str | None
    similarity: float
