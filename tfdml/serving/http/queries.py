"""Images that are asked about, and what a searcher says of them."""

import dataclasses
from typing import Any

import numpy as np

from tfdml.serving.index.labeling import vote
from tfdml.serving.index.neighbor import Neighbor
from tfdml.serving.index.threshold import Threshold

# The service tells nobody paths, and a filter would find them out letter by letter.
HIDDEN = ("path",)
# Accepts all neighbors.
ANY = Threshold()


@dataclasses.dataclass(frozen=True)
class Query:
    """An image that is asked about.

    Args:
        image: what `Searcher.read` returned of its file.
        k: number of neighbors; 0 if only the embedding is wanted.
        where: filter of the neighbors; None: none.
        reader: the `Searcher` that has read it; None: it is a file, which any reads.
    """

    image: np.ndarray | bytes
    k: int = 0
    where: str | None = None
    reader: Any = None


@dataclasses.dataclass
class Answer:
    """The answer to a query: all that is known of its image.

    Args:
        embedding: `[D]` array.
        neighbors: the nearest images of the index, the nearest first.
        matching, exact: as of `Found`, if there is a filter.
        problem: what is wrong with the filter; None: nothing.
        threshold: the `Threshold` from which neighbors are accepted.
        metric: of similarities.
    """

    embedding: np.ndarray
    neighbors: list[Neighbor] = dataclasses.field(default_factory=list)
    matching: int | None = None
    exact: bool | None = None
    problem: str | None = None
    threshold: Threshold = ANY
    metric: str = "cosine"

    def vote(self):
        """Returns the label that the neighbors vote for, and the similarity of the nearest that has it; see `vote`."""
        return vote(self.neighbors, self.metric)


def answer_all(searcher, queries, threshold):
    """Returns what `answer` does, for images that were read by this searcher, or by the one before with its model.

    Args:
        searcher, queries: as of `answer`.
        threshold: function from a searcher to its `Threshold`.
    """
    readers = [searcher if _is_read_for(query, searcher) else query.reader for query in queries]
    if all(reader is searcher for reader in readers):
        return answer(searcher, queries, threshold(searcher))
    answers = [None] * len(queries)
    for chosen in dict.fromkeys(readers):
        places = [place for place, reader in enumerate(readers) if reader is chosen]
        for place, found in zip(
            places, answer(chosen, [queries[place] for place in places], threshold(chosen)), strict=True
        ):
            answers[place] = found
    return answers


def _is_read_for(query, searcher):
    return query.reader is None or query.reader is searcher or query.reader.model is searcher.model


def answer(searcher, queries, threshold=ANY):
    """Returns the `Answer` to each `Query`; None where the image cannot be read.

    Args:
        searcher: `tfdml.serving.Searcher`.
        queries: list of `Query`.
        threshold: `Threshold`.
    """
    embeddings, valid = searcher.embed_read([query.image for query in queries])
    about = {"threshold": threshold, "metric": searcher.manifest["metric"]}
    answers = [
        Answer(embedding, **about) if readable else None for embedding, readable in zip(embeddings, valid, strict=True)
    ]
    # Approximate searches find other images for another k: nobody's answer may depend on who else asks.
    for k, where in {(query.k, query.where) for query in queries if query.k}:
        asked = [(query.k, query.where) == (k, where) for query in queries]
        places = np.flatnonzero(np.array(asked) & valid)
        if len(places) and where is None:
            found = searcher.neighbors_of(embeddings[places], k)
            for place, neighbors in zip(places, found, strict=True):
                answers[place].neighbors = neighbors
        elif len(places):
            _search_filtered(searcher, embeddings[places], k, where, [answers[place] for place in places])
    return answers


def _search_filtered(searcher, embeddings, k, where, answers):
    try:
        found = searcher.search_vectors(embeddings, k, where, hidden=HIDDEN)
    except ValueError as error:
        for each in answers:
            each.problem = str(error)
        return
    for each, neighbors in zip(answers, found, strict=True):
        each.neighbors, each.matching, each.exact = neighbors, found.matching, found.exact
