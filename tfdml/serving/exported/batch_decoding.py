"""Decodes a batch of image files inside a SavedModel."""

import tensorflow as tf

from pipelines.checks import MOST_PIXELS


def decoded(image_bytes, preprocessor):
    """Returns pixels that `preprocessor.normalize` takes, and whether each image could be read.

    They are `[B, H, W, 3]` and `[B]`; of no file, one of each.

    An image that cannot be read is zeros. Its header is checked before it is decoded.

    Args:
        image_bytes: `[B]` contents of files.
        preprocessor: `pipelines.preprocessing.Preprocessor`.
    """
    # Traced once for the two places where it is called.
    prepare = tf.function(
        lambda file: preprocessor.pixels(file, tf.zeros([2], tf.int64)), [tf.TensorSpec([], tf.string)], autograph=False
    )
    # TensorFlow's convolutions fail on an empty batch, so it embeds a blank image and drops the result.
    contents = tf.cond(tf.size(image_bytes) > 0, lambda: image_bytes, lambda: tf.constant([""]))

    def of_all(contents):
        images = tf.map_fn(prepare, contents, fn_output_signature=tf.float32)
        return images, tf.ones_like(contents, tf.bool)

    def of_one(file):
        found = tf.data.Dataset.from_tensors(file).map(lambda file: (prepare(file), True))
        nothing = tf.data.Dataset.from_tensors((tf.zeros(preprocessor.image_shape), False))
        return found.ignore_errors().concatenate(nothing).take(1)

    def of_each(contents):
        images = tf.data.Dataset.from_tensor_slices(contents).flat_map(of_one)
        return images.batch(tf.size(contents, tf.int64))

    # Only TensorFlow's datasets catch errors. One by one takes several times as long, so all are tried at once first.
    batch = tf.data.Dataset.from_tensors(contents)
    found = batch.map(of_all).ignore_errors().concatenate(batch.flat_map(of_each)).take(1)
    return found.with_options(_options()).get_single_element()


def check_all(valid):
    """Returns an operation that fails if an image could not be read, and names its position in the batch.

    Args:
        valid: `[B]` booleans.
    """
    first = tf.argmin(tf.cast(valid, tf.int32))
    message = [
        "Image",
        first,
        f"of the batch cannot be read: expected a JPEG, PNG or still WebP of at most {MOST_PIXELS} pixels.",
    ]
    return tf.raw_ops.Assert(condition=tf.reduce_all(valid), data=message)


def _options():
    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to improve in so short a pass, which is built anew for each batch.
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return options
