"""Recall@K: does an image of the same class stand among the K nearest?"""

import numpy as np
import tensorflow as tf

# Queries compared at once; the block of similarities is this by the number of images, never all by all.
BLOCK = 512
# Similarities of unit vectors in float32 that differ by less are equal but for rounding.
TIE = 2e-6


def recall_at_k(embeddings, labels, ks=(1, 2, 4, 8)):
    """Recall@K of every image as a query against all others, by cosine similarity.

    A query is excluded from its own neighbours by row. Neighbours of another class that are as similar as the best
    one of the query's class count as nearer, so a collapsed embedding scores near 0. Queries whose class has no
    other image cannot succeed and are left out.

    Args:
        embeddings: `[N, d]` array, finite.
        labels: `[N]` class numbers.
        ks: numbers of neighbours.

    Returns:
        `{"recall_at_1": fraction, ..., "queries": number of queries}`.
    """
    embeddings, labels = _checked(embeddings, labels)
    ahead = negatives_ahead(embeddings, labels)
    valid = ahead[ahead >= 0]
    if not len(valid):
        raise ValueError("Recall needs a class with two images or more; every class here has one.")
    return {**{f"recall_at_{k}": float(np.mean(valid < k)) for k in ks}, "queries": len(valid)}


def negatives_ahead(embeddings, labels):
    """For each query `[N]`, how many images of other classes are as near as the nearest of its own, or nearer.

    -1 where the query's class has no other image. Recall@K is the share of queries for which it is below K.
    """
    _, class_ids, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    gallery = tf.math.l2_normalize(tf.constant(embeddings, tf.float32), axis=1)
    class_ids = tf.constant(class_ids, tf.int32)
    counts = [
        _block_ahead(gallery, class_ids, start, min(start + BLOCK, len(labels)))
        for start in range(0, len(labels), BLOCK)
    ]
    ahead = np.concatenate([count.numpy() for count in counts])
    return np.where(sizes[class_ids.numpy()] > 1, ahead, -1)


@tf.function(
    input_signature=[
        tf.TensorSpec([None, None], tf.float32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([], tf.int32),
    ]
)
def _block_ahead(gallery, class_ids, start, stop):
    similarity = tf.matmul(gallery[start:stop], gallery, transpose_b=True)
    same = class_ids[start:stop, None] == class_ids[None, :]
    itself = tf.range(start, stop)[:, None] == tf.range(tf.size(class_ids))[None, :]
    best = tf.reduce_max(tf.where(same & ~itself, similarity, -2.0), axis=1)
    nearer = ~same & (similarity >= best[:, None] - TIE)
    return tf.math.count_nonzero(nearer, axis=1, dtype=tf.int32)


def _checked(embeddings, labels):
    embeddings, labels = np.asarray(embeddings), np.asarray(labels)
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1]:
        raise ValueError(
            f"Expected embeddings [N, d] and labels [N], received shapes {embeddings.shape} and {labels.shape}."
        )
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{np.sum(~finite)} of {len(finite)} embeddings are not finite, first at row {finite.argmin()}."
        )
    return embeddings, labels
