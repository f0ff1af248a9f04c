"""Recall@K: the fraction of queries with an image of the same class among the K nearest."""

import numpy as np
import tensorflow as tf

# Number of queries compared at once: a block of similarities has this many rows, not one for each image.
BLOCK = 512
# Similarities of unit vectors in float32 that differ by less are equal up to rounding.
TIE = 2e-6


def recall_at_k(embeddings, labels, ks=(1, 2, 4, 8), *, queries=None, gallery=None, apart=()):
    """Computes Recall@K of queries in a gallery by cosine similarity; by default, of every image among all others.

    A query is excluded from its own neighbors by row. Neighbors of another class that are as similar as the nearest
    one of the query's class rank before it, so a collapsed embedding scores near 0. Queries whose class has no other
    image in the gallery are left out.

    Args:
        embeddings: `[N, d]` array, finite.
        labels: `[N]` class numbers.
        ks: numbers of neighbors.
        queries: `[N]` booleans, the rows that are queries; None for all.
        gallery: `[N]` booleans, the rows that are in the gallery; None for all.
        apart: arrays `[N]` of integers, such as cameras. A gallery image of the query's class counts neither as found
            nor as missed if it equals the query in any of them.

    Returns:
        `{"recall_at_1": fraction, ..., "queries": number of queries}`.
    """
    ahead = negatives_ahead(embeddings, labels, queries=queries, gallery=gallery, apart=apart)
    valid = ahead[ahead >= 0]
    if not len(valid):
        raise ValueError("Recall needs a query with another image of its class in the gallery; there is none.")
    return {**{f"recall_at_{k}": float(np.mean(valid < k)) for k in ks}, "queries": len(valid)}


def negatives_ahead(embeddings, labels, *, queries=None, gallery=None, apart=()):
    """Returns, for each query, the number of gallery images of other classes at least as near as its nearest positive.

    -1 if the query has no positive. Recall@K is the fraction of queries for which the number is below K.
    """
    embeddings, labels = _checked(embeddings, labels)
    queries, gallery = (_rows(marks, len(labels)) for marks in (queries, gallery))
    unit = tf.math.l2_normalize(tf.constant(embeddings, tf.float32), axis=1)
    class_ids = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    keys = np.stack([class_ids, *(np.unique(key, return_inverse=True)[1].astype(np.int32) for key in apart)])
    searched = [tf.gather(unit, gallery), tf.constant(gallery, tf.int32), tf.constant(keys[:, gallery])]
    counts = [
        _block_ahead(tf.gather(unit, rows), tf.constant(rows, tf.int32), tf.constant(keys[:, rows]), *searched)
        for rows in np.split(queries, np.arange(BLOCK, len(queries), BLOCK))
    ]
    return np.concatenate([count.numpy() for count in counts])


SIDE = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None], tf.int32)]


@tf.function(input_signature=[*SIDE, *SIDE])
def _block_ahead(queries, query_rows, query_keys, gallery, gallery_rows, gallery_keys):
    similarity = tf.matmul(queries, gallery, transpose_b=True)
    same = query_keys[0][:, None] == gallery_keys[0][None, :]
    together = tf.reduce_any(query_keys[1:, :, None] == gallery_keys[1:, None, :], axis=0)
    itself = query_rows[:, None] == gallery_rows[None, :]
    found = same & ~itself & ~together
    best = tf.reduce_max(tf.where(found, similarity, -2.0), axis=1)
    nearer = ~same & (similarity >= best[:, None] - TIE)
    return tf.where(tf.reduce_any(found, axis=1), tf.math.count_nonzero(nearer, axis=1, dtype=tf.int32), -1)


def _rows(marks, count):
    marks = np.ones(count, bool) if marks is None else np.asarray(marks, bool)
    if marks.shape != (count,):
        raise ValueError(f"Expected one boolean for each of {count} rows, received shape {marks.shape}.")
    return np.flatnonzero(marks)


def _checked(embeddings, labels):
    embeddings, labels = np.asarray(embeddings), np.asarray(labels)
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1]:
        raise ValueError(
            f"Expected embeddings [N, d] and labels [N], received shapes {embeddings.shape} and {labels.shape}."
        )
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{np.sum(~finite)} of {len(finite)} embeddings are not finite; the first is row {finite.argmin()}."
        )
    return embeddings, labels
