"""Images of a split as they are stored, for reports and checks."""

import numpy as np
import tensorflow as tf

from pipelines.datasets.split import Split
from pipelines.datasets.stored_vectors import vector_dims
from pipelines.images.decoding import converted, decode, read_image
from tfdml.registry.arguments import Rows

# Pictures that are copied at once.
BATCH = 256


def image_of(split: Split, row: int) -> np.ndarray:
    """Returns the decoded image of a row, uint8 `[H, W, 3]`; of a vector a picture."""
    if vector_dims(split):
        return tf.constant(split.images.picture(row))
    contents = converted(tf.constant(split.images[row])) if split.encoded else read_image(split.images[row])
    return decode(contents, None if split.boxes is None else split.boxes[row])


def thumbnail(split: Split, row: int, side: int) -> np.ndarray:
    """Returns a small picture of a row, uint8 `[side, side, 3]`, with the aspect ratio of the image."""
    return _shrunk(image_of(split, row), side).numpy()


def thumbnails(split: Split, rows: Rows, side: int) -> np.ndarray:
    """Returns small pictures of many rows, uint8 `[n, side, side, 3]`, as `thumbnail` makes them, on all cores."""
    chosen = split.where(rows)
    if vector_dims(split):
        return np.stack([thumbnail(chosen, row, side) for row in range(len(chosen))])
    boxes = [] if chosen.boxes is None else [chosen.boxes]

    def prepared(image, *box):
        contents = converted(image) if chosen.encoded else read_image(image)
        return _shrunk(decode(contents, *box), side)

    dataset = tf.data.Dataset.from_tensor_slices((chosen.images.tolist(), *boxes))
    dataset = dataset.map(prepared, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
    return np.concatenate([batch.numpy() for batch in dataset])


def _shrunk(image, side):
    resized = tf.image.resize_with_pad(image, side, side, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
