"""Dataset, sampler and image preparation joined to a `tf.data.Dataset`."""

import os

import tensorflow as tf

# Row arithmetic costs little more for many steps than for one, so several are computed in one call: at most this many,
# and fewer where batches are large, because its memory grows with the square of a batch.
STEPS_AT_ONCE = 32
ROWS_AT_ONCE = 8192


def training_batches(split, sampler, prepare, *, seed, step, steps_per_epoch, length=None, worker=(0, 1), parts=1):
    """Batches `(images, labels)` of the rest of an epoch, a pure function of the seed and the step.

    Each pass over the dataset begins at the step that the variable `step` holds then, with the sampler's tables as
    they are then, and goes on to the end of that epoch. The dataset's length is known, since Keras miscounts the
    steps of an epoch otherwise.

    Args:
        split: `pipelines.datasets.Split` to train on.
        sampler: a sampler bound to the split's labels.
        prepare: function `(contents, seed [2]) -> image`; where the split has boxes, `(contents, seed, box [4])`.
        seed: integer; decides batches and augmentation.
        step: `tf.Variable`, int64 scalar, the number of steps taken.
        steps_per_epoch: steps that make an epoch.
        length: steps that each pass will have, where it is less than an epoch because a run goes on inside one.
        worker: `(index, count)`: of every batch this worker's share is made.
        parts: into how many batches the share is cut, one for each replica of the worker.
    """
    index, workers = worker
    share = sampler.batch_size // workers
    steps_at_once = max(1, min(STEPS_AT_ONCE, ROWS_AT_ONCE // sampler.batch_size))
    images, labels, boxes = _tensors(split)
    seed = tf.constant(seed, tf.int64)

    def rows_of(steps, tables):
        rows = sampler.rows(seed, steps, tables)[:, index * share : (index + 1) * share]
        numbers = steps[:, None] * sampler.batch_size + index * share + tf.range(share, dtype=tf.int64)[None, :]
        return tf.data.Dataset.from_tensor_slices((tf.reshape(rows, [-1]), tf.reshape(numbers, [-1])))

    def rest_of_epoch(_):
        first = step.read_value()
        tables = sampler.tables()
        steps = tf.data.Dataset.range(first, (first // steps_per_epoch + 1) * steps_per_epoch)
        return steps.batch(steps_at_once).flat_map(lambda steps: rows_of(steps, tables))

    def load(row, number):
        image = prepare(_contents(images, row, split.encoded), tf.stack([seed, number]), *_box(boxes, row))
        return image, labels[row]

    dataset = tf.data.Dataset.from_tensors(0).flat_map(rest_of_epoch)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(share // parts, drop_remainder=True)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality((length or steps_per_epoch) * parts))
    return _deterministic(dataset.prefetch(tf.data.AUTOTUNE))


def evaluation_batches(split, prepare, *, batch_size):
    """Batches of images of all rows in order, every batch full: the last repeats the last row."""
    images, _, boxes = _tensors(split)
    count = len(split)
    padded = -(-count // batch_size) * batch_size

    def load(row):
        row = tf.minimum(row, count - 1)
        return prepare(_contents(images, row, split.encoded), tf.zeros([2], tf.int64), *_box(boxes, row))

    dataset = tf.data.Dataset.range(padded).map(load, num_parallel_calls=tf.data.AUTOTUNE)
    return _deterministic(dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


def _tensors(split):
    boxes = None if split.boxes is None else tf.constant(split.boxes, tf.int32)
    return tf.constant(split.images), tf.constant(split.labels, tf.int64), boxes


def _contents(images, row, encoded):
    return images[row] if encoded else tf.io.read_file(images[row])


def _box(boxes, row):
    """What `prepare` takes besides contents and seed: the row's box, where rows have boxes."""
    return () if boxes is None else (boxes[row],)


def _deterministic(dataset):
    options = tf.data.Options()
    options.deterministic = True
    # Threads of its own: TensorFlow's may be few, so that training is deterministic.
    options.threading.private_threadpool_size = os.cpu_count()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)
