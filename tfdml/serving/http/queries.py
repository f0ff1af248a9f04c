"""Images that are asked about, and what a searcher says of them."""

import dataclasses

import numpy as np

from tfdml.serving.index.searcher import Neighbor


@dataclasses.dataclass(frozen=True)
class Query:
    """An image that is asked about.

    Args:
        image: what `Searcher.read` returned of its file.
        k: number of neighbors; 0 if only the embedding is wanted.
    """

    image: np.ndarray | bytes
    k: int = 0


@dataclasses.dataclass
class Answer:
    """The answer to a query: all that is known of its image.

    Args:
        embedding: `[D]` array.
        neighbors: the nearest images of the index, the nearest first.
    """

    embedding: np.ndarray
    neighbors: list[Neighbor] = dataclasses.field(default_factory=list)


def answer(searcher, queries):
    """Returns the `Answer` to each `Query`; None where the image cannot be read.

    Args:
        searcher: `tfdml.serving.Searcher`.
        queries: list of `Query`.
    """
    embeddings, valid = searcher.embed_read([query.image for query in queries])
    answers = [Answer(embedding) if readable else None for embedding, readable in zip(embeddings, valid, strict=True)]
    # Approximate searches find other images for another k: nobody's answer may depend on who else asks.
    for k in {query.k for query in queries} - {0}:
        places = [place for place, query in enumerate(queries) if query.k == k and valid[place]]
        if places:
            found = searcher.neighbors(*searcher.nearest(embeddings[places], k))
            for place, neighbors in zip(places, found, strict=True):
                answers[place].neighbors = neighbors
    return answers
