"""Says where the images of an index differ from those that its threshold was fitted on."""

import numpy as np

from tfdml.files.shards import EmbeddingShards
from tfdml.serving.index.index_build import compared_vectors

# Images that are compared with each other, and files that are read for them.
IMAGES, FILES = 1000, 5
# By how much rates of false accepts may differ, and how many pairs have to show it.
FACTOR, PAIRS = 3, 30


def difference(searcher, threshold):
    """Returns a sentence if a fitted threshold accepts far more, or fewer, of the wrong pairs than where it was fitted.

    Up to 1,000 images of the index that have labels are compared with each other. Of the pairs with different labels it
    may accept a third to three times the rate at which it was fitted, and what fewer than 30 pairs show does not count.

    Args:
        searcher: `Searcher`.
        threshold: `Threshold`; one that is not fitted differs from nothing.

    Returns:
        The sentence, or None.
    """
    if threshold.fitted is None or searcher.embeddings is None or not searcher.embeddings.exists():
        return None
    vectors, labels = _sample(searcher)
    different = np.triu(labels[:, None] != labels, 1)
    pairs, rate = int(different.sum()), threshold.fitted["false_accept_rate"]
    accepted = int(np.sum(_similarities(vectors, searcher.manifest["metric"])[different] >= threshold.value))
    expected = rate * pairs
    if max(accepted, expected) < PAIRS or expected / FACTOR <= accepted <= expected * FACTOR:
        return None
    return (
        f"The images of the index differ from those that the threshold was fitted on: of {pairs:,} pairs with "
        f"different labels it accepts {accepted / pairs:.2g}, and there {rate:.2g}. Fit it on images like these."
    )


def _sample(searcher):
    """Returns embeddings `[N, D]` and labels `[N]` of images of the index that have one."""
    vectors, labels, deleted = [], [], searcher.rows.deleted_ids
    blocks = EmbeddingShards(searcher.embeddings).blocks()
    for _, block in zip(range(FILES), blocks, strict=False):
        known = [
            place
            for place, (id, label) in enumerate(zip(block.ids.tolist(), block.labels, strict=True))
            if label is not None and id not in deleted
        ]
        vectors.append(block.embeddings[known])
        labels += [block.labels[place] for place in known]
    drawn = np.random.default_rng(0).permutation(len(labels))[:IMAGES]
    numbers = np.unique(np.array(labels, object).astype(str), return_inverse=True)[1]
    return compared_vectors(np.concatenate(vectors)[drawn], searcher.manifest["metric"]), numbers[drawn]


def _similarities(vectors, metric):
    products = vectors @ vectors.T
    if metric == "cosine":
        return products
    squares = np.diag(products)
    return -np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0))
