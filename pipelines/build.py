"""Builds a `tf.data.Dataset` of batches from a split, a sampler and a transform.

`training_batches` works in four steps. The sampler draws the rows of the epoch's batches (`_drawn`). Their files are
read, decoded and augmented, with a seed that depends on their place in the run (`_decoded`, or `_first_readable` if
other images replace unreadable images). Each image gets the target that the loss learns from (`_target_of`). Images
are then batched in the order in which they were drawn. So a batch depends only on the seed and the step.
"""

import operator
import os
from typing import Any, NamedTuple

import numpy as np

from pipelines.operations import tf
from pipelines.py_datasets import OrderedBatches
from pipelines.reading.cache import PackedReader, file_reader, vector_reader
from pipelines.sampling.sampler import drawn_targets
from pipelines.stored import vector_dims
from tfdml.runtime.backends import uses_tensorflow

# Computing the rows of many steps costs little more than computing the rows of one, so one call computes several steps:
# at most this many, and fewer if batches are large, because the memory grows with the square of the batch size.
STEPS_AT_ONCE = 32
ROWS_AT_ONCE = 8192
# Number of rows that one call reads from shards.
RECORDS = 64
# Number of files to read in parallel. On a network disk, most of the time is spent waiting.
READS = 16
# Number of batches to prepare ahead of the model.
BATCHES_AHEAD = 2
CORES = os.cpu_count()
# Nothing here needs AutoGraph, which would spend seconds at the start of every run on parsing the source.
as_it_is = tf.autograph.experimental.do_not_convert


class Batch(NamedTuple):
    """The images of one or more batches before they are read. For a single image, each field is a scalar."""

    # Rows `[n]` of the split.
    rows: tf.Tensor
    # Positions `[n]` of the images, counted over all batches of the run. They seed the augmentation.
    numbers: tf.Tensor
    # The sampler's targets for the images, `[n, ...]`, see `Sampler.targets`; `()` if it has none.
    targets: Any


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
    texts=None,
    vectors=None,
):
    """Returns the batches `(images, target)` of the rest of an epoch, which depend only on the seed and the step.

    The target is the labels, or what `Sampler.targets` specifies. Each pass over the dataset reads the variable `step`
    and the sampler's tables at its start. It ends with that epoch, or after `length` steps if a resumed run starts in
    the middle of an epoch. The dataset has a known length, because otherwise Keras miscounts the steps of an epoch.

    `preprocess` is a function `(contents, seed [2]) -> image`, which also accepts a `box [4]` if the split has boxes.
    `read` returns the contents of a row, by default from its file. Vectors need no `preprocess`, because a whole batch
    of them is gathered at once. `worker` is `(index, count)`: this worker produces its share of every batch, in `parts`
    batches, one for each of its replicas. Without `substitutes`, a row that cannot be read is an error. `weights`, from
    `class_weights`, are the third element of batches. With `texts`, from `Captions.drawn`, batches are pairs
    `{"image": ..., "tokens": ...}`, and the target is the number of each pair's text. `vectors` are more targets, a
    dictionary from names to `StoredVectors` with one vector for each row of the split.
    """
    seed = tf.constant(seed, tf.int64)
    read, box_of = read or _reader(split), _boxes(split)
    target_of = _with_vectors(_target_of(split, sampler.targets), vectors or {})
    drawn, size = _drawn(sampler, seed, step, steps_per_epoch, worker), sampler.batch_size // worker[1] // parts

    def pair(image, rows, numbers, targets):
        if texts is None:
            return image, target_of(rows, targets)
        tokens, text = texts(rows, numbers)
        return {"image": image, "tokens": tokens}, text

    def prepared(contents, image):
        augmented = preprocess(contents, tf.stack([seed, image.numbers]), *box_of(image.rows))
        return pair(augmented, image.rows, image.numbers, image.targets)

    def noted(images, targets, rows, taken):
        substitutes.note(rows, taken)
        return images, targets

    if vector_dims(split):
        gathered = as_it_is(lambda batch: pair(read(batch.rows), *batch))
        dataset = drawn.rebatch(size, drop_remainder=True).map(gathered)
    elif substitutes is None:
        images = _decoded(drawn.unbatch(), read, prepared, operator.attrgetter("rows"))
        dataset = images.batch(size, drop_remainder=True)
    else:
        images = _first_readable(drawn.unbatch(), read, prepared, substitutes, seed)
        dataset = images.batch(size, drop_remainder=True).map(as_it_is(noted))
    if weights is not None:
        dataset = weighted(dataset, weights)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality((length or steps_per_epoch) * parts))
    return _deterministic(dataset.prefetch(BATCHES_AHEAD * parts))


def _drawn(sampler, seed, step, steps_per_epoch, worker):
    """Returns a dataset of `Batch`es with several steps each: this worker's share of the rest of an epoch."""
    index, workers = worker
    share = sampler.batch_size // workers
    mine = slice(index * share, (index + 1) * share)
    steps_at_once = max(1, min(STEPS_AT_ONCE, ROWS_AT_ONCE // sampler.batch_size))

    def rest_of_epoch(_):
        first = step.read_value()
        tables = tuple(sampler.tables())
        steps = tf.data.Dataset.range(first, (first // steps_per_epoch + 1) * steps_per_epoch)
        return steps.batch(steps_at_once).map(as_it_is(lambda steps: (steps, tables)))

    # This is outside of `rest_of_epoch`, because TensorFlow would build it again at the start of every epoch.
    def batches_of(steps, tables):
        rows = sampler.rows(seed, steps, tables)[:, mine]
        numbers = steps[:, None] * sampler.batch_size + index * share + tf.range(share, dtype=tf.int64)[None, :]
        targets = drawn_targets(sampler, rows, seed, steps, tables, mine)
        return Batch(tf.reshape(rows, [-1]), tf.reshape(numbers, [-1]), targets)

    return tf.data.Dataset.from_tensors(0).flat_map(as_it_is(rest_of_epoch)).map(as_it_is(batches_of))


def _target_of(split, targets):
    """Returns a function from rows and the sampler's targets to what the loss learns from."""
    if targets in ("relevance", "labels"):
        return lambda rows, drawn: drawn
    if split.attributes is not None:
        labels = tf.constant(split.attributes)
    else:
        labels = tf.constant(split.labels if split.hierarchy is None else split.hierarchy, tf.int64)
    if targets == "learners":
        return lambda rows, learners: {"label": tf.gather(labels, rows), "learner": learners}
    return lambda rows, _: tf.gather(labels, rows)


def _with_vectors(target_of, vectors):
    """Returns `target_of` with the vectors of each row as more targets, if there are any."""
    readers = {name: vector_reader(each) for name, each in vectors.items()}

    def with_vectors(rows, drawn):
        target = target_of(rows, drawn)
        target = target if isinstance(target, dict) else {"label": target}
        # A map over images has a single row, which a reader of several rows also reads.
        several = tf.reshape(rows, [-1])
        more = {name: read(several) for name, read in readers.items()}
        return {**target, **{name: each[0] if rows.shape.rank == 0 else each for name, each in more.items()}}

    return with_vectors if readers else target_of


def _reader(split):
    return vector_reader(split.images) if vector_dims(split) else file_reader(split)


def _boxes(split):
    """Returns a function from a row to the last arguments of `preprocess`: `(box,)`, or `()` without boxes."""
    boxes = None if split.boxes is None else tf.constant(split.boxes, tf.int32)
    return lambda row: () if boxes is None else (boxes[row],)


def _decoded(images, read, prepared, row_of=lambda image: image):
    """Returns a dataset of `prepared(contents, image)` for each image; `row_of(image)` returns its row."""
    if not isinstance(read, PackedReader):
        one = as_it_is(lambda image: prepared(read(row_of(image)), image))
        return images.map(one, num_parallel_calls=READS)
    several = as_it_is(lambda some: (read.many(row_of(some)), some))
    files = images.batch(RECORDS).map(several, num_parallel_calls=CORES)
    return files.unbatch().map(as_it_is(prepared), num_parallel_calls=READS)


def _first_readable(images, read, prepared, substitutes, seed):
    """Returns a dataset of `(image, target, row, row used)` with the first readable candidate for each image."""

    def first_of(image):
        rows = tf.data.Dataset.from_tensor_slices(substitutes.candidates(image.rows, seed, image.numbers))

        def attempt(row):
            return *prepared(read(row), Batch(row, image.numbers, image.targets)), image.rows, row

        tried = rows.map(as_it_is(attempt))
        # If all candidates fail, the run stops with the error of the first.
        return tried.ignore_errors().concatenate(tried.take(1)).take(1)

    return images.interleave(as_it_is(first_of), cycle_length=READS, num_parallel_calls=READS)


def with_anchors(batches, anchors):
    """Returns batches with the images and the vectors of other batches, from `training_batches`, as more targets.

    Both datasets have the same steps. Labels of the other images are not used.
    """

    def joined(batch, other):
        images, target, *weights = batch
        others, vectors = other
        target = target if isinstance(target, dict) else {"label": target}
        more = {name: each for name, each in vectors.items() if name != "label"}
        return images, {**target, **more, "anchor": others}, *weights

    both = tf.data.Dataset.zip(batches, anchors).map(as_it_is(joined))
    return both.apply(tf.data.experimental.assert_cardinality(len(batches)))


def class_weights(split, power):
    """Returns class weights `[C]`, proportional to `n^-power` for n images and with a mean of 1 over all images."""
    labels = split.labels if split.hierarchy is None else split.hierarchy[:, -1]
    sizes = np.bincount(labels)
    weights = np.where(sizes > 0, np.maximum(sizes, 1.0) ** -power, 0.0)
    return (weights / weights[labels].mean()).astype(np.float32)


def weighted(batches, weights):
    """Returns batches `(images, target, weights [B])` for Keras' `fit`; `weights` are from `class_weights`."""
    table = tf.constant(weights)

    def with_weights(images, target):
        classes = target["label"] if isinstance(target, dict) else target
        return images, target, tf.gather(table, classes if classes.shape.rank == 1 else classes[:, -1])

    return batches.map(as_it_is(with_weights))


def evaluation_batches(split, preprocess, *, batch_size, read=None, tolerant=False, share=range, keep=False):
    """Returns batches of the images of all rows in order; the last batch is filled with copies of the last row.

    See `training_batches` for `preprocess` and `read`. If `tolerant`, zeros replace an image that cannot be read.
    `share` is a function from the number of batches to the range of batches that this worker produces. If `keep`, the
    first complete pass stores the batches in memory.
    """
    if not uses_tensorflow():
        return _evaluated_by_numpy(split, preprocess, batch_size, read)
    read, box_of, count = read or _reader(split), _boxes(split), len(split)
    batches = share(-(-count // batch_size))
    first, end = batches.start * batch_size, batches.stop * batch_size
    # This is not a map over rows, because the map would need as long per row as reading a small file.
    copies = tf.data.Dataset.from_tensors(tf.constant(count - 1, tf.int64)).repeat(max(end, count) - max(first, count))
    rows = tf.data.Dataset.range(first, min(end, count)).concatenate(copies)
    seed = tf.zeros([2], tf.int64)

    def prepared(contents, row):
        return preprocess(contents, seed, *box_of(row))

    def image_or_zeros(row):
        image = tf.data.Dataset.from_tensors(row).map(as_it_is(lambda row: prepared(read(row), row)))
        zeros = tf.data.Dataset.from_tensors(tf.zeros(image.element_spec.shape))
        return image.ignore_errors().concatenate(zeros).take(1)

    if vector_dims(split):
        dataset = rows.batch(batch_size, drop_remainder=True).map(as_it_is(read))
    else:
        if tolerant:
            images = rows.interleave(as_it_is(image_or_zeros), READS, num_parallel_calls=READS)
        else:
            images = _decoded(rows, read, prepared)
        dataset = images.batch(batch_size, drop_remainder=True)
    # With a dataset of unknown length, Keras warns at its end that it ran out of data.
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    return _deterministic((dataset.cache() if keep else dataset).prefetch(BATCHES_AHEAD))


def _evaluated_by_numpy(split, preprocess, batch_size, read):
    if vector_dims(split):
        return OrderedBatches.of(split.images.read(), batch_size)
    read, box_of = read or _reader(split), _boxes(split)
    return OrderedBatches(
        len(split),
        lambda row: (read(row), *box_of(row)),
        lambda image, seed: preprocess(image[0], seed, *image[1:]),
        batch_size=batch_size,
    )


def _deterministic(dataset):
    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to tune, and a pass would not end before the tuner wakes up, which sleeps longer each time.
    options.autotune.enabled = False
    # A private pool, because TensorFlow may have few threads to keep training deterministic. Reading threads mostly
    # wait.
    options.threading.private_threadpool_size = CORES + READS
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)
