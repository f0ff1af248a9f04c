"""Recall@K from texts to images and from images to texts."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors
from tfdml.evaluation.scores import Scores
from tfdml.registry.arguments import Embeddings, integer, several
from tfdml.registry.fields import declared

# Number of similarities that are computed at once.
SIMILARITIES = 2**24
DIRECTIONS = ("text_to_image", "image_to_text")


@declared
def image_text_recall(
    images: Embeddings,
    texts: Embeddings,
    pairs: Any,
    at: Annotated[Sequence[int], several(integer(1))] = (1, 5, 10),
) -> dict[str, Scores]:
    """Computes Recall@K from texts to images and from images to texts.

    Recall@K is the fraction of queries that find a matching item among the K most similar ones. A text can belong to
    several images, and an image can have several texts. Similarities that differ by less than 10⁻⁶ are ties, which
    count against the model.

    Args:
        images: `[N, d]` embeddings of images.
        texts: `[M, d]` embeddings of texts. Pass each text once, even if several images have it.
        pairs: `[P, 2]` integers: the row of an image and the row of a text that belongs to it.
        at: Sequence of integers K. Defaults to `(1, 5, 10)`.

    Returns:
        Dictionary from `"text_to_image"` and `"image_to_text"` to `Scores`, with metrics such as
        `text_to_image_recall_at_1`. Only texts and images that are in a pair are queries.

    Raises:
        ValueError: If `pairs` has no row, or a row that does not exist.

    Example:

    ```python
    images = np.array([[1, 0], [0.8, 0.6], [0, 1]], "float32")
    texts = np.array([[0.9, 0.3], [0.1, 0.9]], "float32")
    found = tfdml.evaluation.image_text_recall(images, texts, pairs=[(0, 0), (1, 0), (2, 1)], at=(1,))
    found["text_to_image"].values  # {'text_to_image_recall_at_1': 1.0}
    ```
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"pairs must have the shape [P, 2] with P > 0. Received: shape={pairs.shape}.")
    for rows, many, name in ((pairs[:, 0], len(images), "images"), (pairs[:, 1], len(texts), "texts")):
        if rows.min() < 0 or rows.max() >= many:
            wrong = rows[(rows < 0) | (rows >= many)][0]
            raise ValueError(f"pairs must name rows of the {many} {name}. Received: row {wrong}.")
    images, texts = (ExactVectors.of(np.asarray(each)).vectors for each in (images, texts))
    of_texts = _scores(texts, images, pairs[:, ::-1], at, DIRECTIONS[0])
    return {DIRECTIONS[0]: of_texts, DIRECTIONS[1]: _scores(images, texts, pairs, at, DIRECTIONS[1])}


def _scores(queries, gallery, pairs, at, name):
    """Returns the `Scores` of queries in a gallery. The pairs are rows of both."""
    order = np.argsort(pairs[:, 0], kind="stable")
    rows, starts = np.unique(pairs[order, 0], return_index=True)
    own = np.split(pairs[order, 1], starts[1:])
    ranks = np.empty(len(rows), np.int64)
    size = max(1, SIMILARITIES // len(gallery))
    for start in range(0, len(rows), size):
        some = slice(start, start + size)
        similarities = queries[rows[some]].astype(np.float64) @ gallery.T.astype(np.float64)
        for place, (of_query, relevant) in enumerate(zip(similarities, own[some], strict=True), start):
            best = of_query[relevant].max()
            # Ties count against the model, except those among the query's own.
            before = np.count_nonzero(of_query > best - TIE) - np.count_nonzero(
                of_query[np.unique(relevant)] > best - TIE
            )
            ranks[place] = before
    per_query = {f"{name}_recall_at_{count}": (ranks < count).astype(np.float64) for count in at}
    values = {metric: float(found.mean()) for metric, found in per_query.items()}
    return Scores(values, rows, per_query, len(rows))
