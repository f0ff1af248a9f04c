"""Joins a dataset, a sampler and preprocessing to a `tf.data.Dataset`."""

import os

import numpy as np
import tensorflow as tf

from pipelines.reading.cache import PackedReader, file_reader, vector_reader
from pipelines.stored import vector_dims


def class_weights(split, power):
    """Returns `[C]` weights of classes with n images, in proportion to `n^-power`, whose mean over images is 1.

    Args:
        split: `pipelines.datasets.Split` to train on.
        power: 0: all images count alike; 1: all classes do, where images are drawn alike.
    """
    labels = split.labels if split.hierarchy is None else split.hierarchy[:, -1]
    sizes = np.bincount(labels)
    weights = np.where(sizes > 0, np.maximum(sizes, 1.0) ** -power, 0.0)
    return (weights / weights[labels].mean()).astype(np.float32)


def weighted(batches, weights):
    """Returns batches `(images, labels, weights [B])`, as Keras' `fit` takes them.

    Args:
        batches: dataset of `(images, labels)`, as `training_batches` makes them.
        weights: `[C]`, what `class_weights` returns.
    """
    table = tf.constant(weights)

    def with_weights(images, target):
        classes = target["label"] if isinstance(target, dict) else target
        return images, target, tf.gather(table, classes if classes.shape.rank == 1 else classes[:, -1])

    return batches.map(tf.autograph.experimental.do_not_convert(with_weights))


# Row arithmetic costs little more for many steps than for one, so several are computed in one call: at most this many,
# and fewer where batches are large, because its memory grows with the square of a batch.
STEPS_AT_ONCE = 32
ROWS_AT_ONCE = 8192
# Rows of shards that are read by one call.
RECORDS = 64
# Files that are read at once: on a network disk most of the time is waiting.
READS = 16
# Batches that wait for the model.
BATCHES_AHEAD = 2
CORES = os.cpu_count()
# Nothing here needs AutoGraph, which reads the source of all that is called, for seconds at the start of every run.
as_it_is = tf.autograph.experimental.do_not_convert


def training_batches(
    split,
    sampler,
    preprocess,
    *,
    seed,
    step,
    steps_per_epoch,
    length=None,
    worker=(0, 1),
    parts=1,
    read=None,
    substitutes=None,
    weights=None,
):
    """Returns the batches `(images, labels)` of the rest of an epoch, a pure function of the seed and the step.

    For a sampler that `takes_turns` they are `(images, {"label": labels, "learner": learners})`, for one that
    `gives_relevance` they have that in place of labels, `[batch, whole batch]`.

    Each pass over the dataset reads the variable `step` and the sampler's tables when it begins, and ends with that
    epoch. The dataset has a known length, since Keras miscounts the steps of an epoch otherwise.

    Of a split of vectors a batch is gathered at once, and `preprocess`, `read` and `substitutes` have no use.

    Args:
        split: `pipelines.datasets.Split` to train on. Labels are its classes, or `[batch, L]` its hierarchy or
            `[batch, C]` its attributes if it has any.
        sampler: `pipelines.sampling.Sampler`, bound to the split's labels.
        preprocess: function `(contents, seed [2]) -> image`; where the split has boxes, `(contents, seed, box [4])`.
        seed: integer; decides batches and augmentation.
        step: `tf.Variable`, int64 scalar, the number of steps taken.
        steps_per_epoch: steps of an epoch.
        length: steps of each pass, where a resumed run begins inside an epoch. Default: `steps_per_epoch`.
        worker: `(index, count)` of this worker, which makes its share of every batch.
        parts: number of batches the share is divided into, one for each replica of the worker.
        read: function from a row to what `preprocess` takes. Default: the contents of the row's file.
        substitutes: `Substitutes` for rows that cannot be read. Default: these are an error.
        weights: `[C]`, how much images of each class count, which comes third in batches. Default: all alike.
    """
    index, workers = worker
    share = sampler.batch_size // workers
    steps_at_once = max(1, min(STEPS_AT_ONCE, ROWS_AT_ONCE // sampler.batch_size))
    labels = _labels_of(split)
    seed = tf.constant(seed, tf.int64)
    of_vectors = bool(vector_dims(split))
    read, boxes = read or (vector_reader(split.images) if of_vectors else file_reader(split)), _boxes(split)

    def rest_of_epoch(_):
        first = step.read_value()
        tables = tuple(sampler.tables())
        steps = tf.data.Dataset.range(first, (first // steps_per_epoch + 1) * steps_per_epoch)
        return steps.batch(steps_at_once).map(as_it_is(lambda steps: (steps, tables)))

    # Outside of `rest_of_epoch`, with which TensorFlow would build it again, slowly, at the start of every epoch.
    def rows_of(steps, tables):
        own = slice(index * share, (index + 1) * share)
        rows = sampler.rows(seed, steps, tables)[:, own]
        numbers = steps[:, None] * sampler.batch_size + index * share + tf.range(share, dtype=tf.int64)[None, :]
        if sampler.gives_relevance:
            known = sampler.relevance(seed, steps, tables)[:, own]
            return tf.reshape(rows, [-1]), tf.reshape(numbers, [-1]), tf.reshape(known, [-1, sampler.batch_size])
        if sampler.gives_labels:
            return tf.reshape(rows, [-1]), tf.reshape(numbers, [-1]), tf.reshape(sampler.labels_of(rows, tables), [-1])
        turns = sampler.learners(seed, steps, tables) if sampler.takes_turns else tf.zeros_like(steps)
        turns = tf.repeat(turns, share) if turns.shape.rank == 1 else tf.reshape(turns[:, own], [-1])
        return tf.reshape(rows, [-1]), tf.reshape(numbers, [-1]), turns

    # What is told of a row is its learner, its label, or its part of what is known of pairs.
    def target_of(rows, told):
        if sampler.gives_relevance or sampler.gives_labels:
            return told
        found = tf.gather(labels, rows)
        return {"label": found, "learner": told} if sampler.takes_turns else found

    def image_of(contents, row, number, told):
        return preprocess(contents, tf.stack([seed, number]), *boxes(row)), target_of(row, told)

    def first_readable(row, number, turn):
        rows = tf.data.Dataset.from_tensor_slices(substitutes.candidates(row, seed, number))
        images = rows.map(as_it_is(lambda taken: (*image_of(read(taken), taken, number, turn), row, taken)))
        # If all fail, the run stops with the error of the first.
        return images.ignore_errors().concatenate(images.take(1)).take(1)

    def noted(images, labels, rows, taken):
        substitutes.note(rows, taken)
        return images, labels

    chunks = tf.data.Dataset.from_tensors(0).flat_map(as_it_is(rest_of_epoch))
    numbers, size = chunks.map(as_it_is(rows_of)), share // parts
    if of_vectors:
        gathered = as_it_is(lambda rows, _, turns: (read(rows), target_of(rows, turns)))
        dataset = numbers.rebatch(size, drop_remainder=True).map(gathered)
    elif substitutes is None:
        dataset = _decoded(numbers.unbatch(), read, image_of).batch(size, drop_remainder=True)
    else:
        options = {"cycle_length": READS, "num_parallel_calls": READS}
        found = numbers.unbatch().interleave(as_it_is(first_readable), **options)
        dataset = found.batch(size, drop_remainder=True).map(as_it_is(noted))
    dataset = dataset if weights is None else weighted(dataset, weights)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality((length or steps_per_epoch) * parts))
    return _deterministic(dataset.prefetch(BATCHES_AHEAD * parts))


def evaluation_batches(split, preprocess, *, batch_size, read=None, tolerant=False, share=range, keep=False):
    """Returns batches of the images of all rows in order; the last batch is filled with copies of the last row.

    Args:
        split, preprocess, read: as in `training_batches`.
        batch_size: images in a batch.
        tolerant: whether an image that cannot be read is replaced by zeros; it is an error otherwise.
        share: function from the number of batches to the range of those that this worker makes. Default: all.
        keep: whether the first complete pass keeps the batches in memory, for the passes after it.
    """
    of_vectors, count = bool(vector_dims(split)), len(split)
    read, boxes = read or (vector_reader(split.images) if of_vectors else file_reader(split)), _boxes(split)
    batches = share(-(-count // batch_size))
    first, end = batches.start * batch_size, batches.stop * batch_size
    # Not a map over rows: for each it would take as long as reading a small file.
    copies = tf.data.Dataset.from_tensors(tf.constant(count - 1, tf.int64)).repeat(max(end, count) - max(first, count))
    rows = tf.data.Dataset.range(first, min(end, count)).concatenate(copies)
    seed = tf.zeros([2], tf.int64)

    def image_of(contents, row):
        return preprocess(contents, seed, *boxes(row))

    def one_image(row):
        found = tf.data.Dataset.from_tensors(row).map(as_it_is(lambda row: image_of(read(row), row)))
        zeros = tf.data.Dataset.from_tensors(tf.zeros(found.element_spec.shape))
        return found.ignore_errors().concatenate(zeros).take(1)

    if of_vectors:
        images = rows.batch(batch_size, drop_remainder=True).map(as_it_is(read))
    elif tolerant:
        images = rows.interleave(as_it_is(one_image), READS, num_parallel_calls=READS)
    else:
        images = _decoded(rows, read, image_of)
    # Of a dataset of unknown length Keras warns at its end that it ran out of data.
    known = tf.data.experimental.assert_cardinality(len(batches))
    dataset = (images if of_vectors else images.batch(batch_size, drop_remainder=True)).apply(known)
    return _deterministic((dataset.cache() if keep else dataset).prefetch(BATCHES_AHEAD))


def _decoded(rows, read, image_of):
    """Returns a dataset of what `image_of` makes of contents, a row, and what stands behind the row in its element."""
    if not isinstance(read, PackedReader):
        one = as_it_is(lambda row, *about: image_of(read(row), row, *about))
        return rows.map(one, num_parallel_calls=READS)
    several = rows.batch(RECORDS).map(
        as_it_is(lambda row, *about: (read.many(row), row, *about)), num_parallel_calls=CORES
    )
    return several.unbatch().map(as_it_is(image_of), num_parallel_calls=READS)


def _labels_of(split):
    """Returns what is told of each row."""
    if split.attributes is not None:
        return tf.constant(split.attributes)
    return tf.constant(split.labels if split.hierarchy is None else split.hierarchy, tf.int64)


def _boxes(split):
    """Returns a function from a row to what `preprocess` takes last: `(box,)`, or `()` where rows have no boxes."""
    boxes = None if split.boxes is None else tf.constant(split.boxes, tf.int32)

    def box_of(row):
        return () if boxes is None else (boxes[row],)

    return box_of


def _deterministic(dataset):
    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to tune, and a pass would not end before its tuner wakes up, which sleeps longer each time.
    options.autotune.enabled = False
    # Own threads: TensorFlow's may be few, so that training is deterministic. Threads that read mostly wait.
    options.threading.private_threadpool_size = CORES + READS
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)
