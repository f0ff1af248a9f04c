"""SavedModels that take image files and return embeddings, and run without tfdml."""

import keras
import tensorflow as tf


def export(model, prepare, path):
    """Writes a SavedModel whose `serving_default` maps `image_bytes` (string `[B]`) to `embedding` (`[B, D]`).

    Args:
        model: Keras model from preprocessed images to embeddings.
        prepare: function `(contents, seed [2]) -> image`, as in evaluation.
        path: folder to write to.
    """

    def serve(image_bytes):
        seed = tf.zeros([2], tf.int64)
        # One image at a time: the files of a batch decode to different sizes.
        images = tf.map_fn(lambda contents: prepare(contents, seed), image_bytes, fn_output_signature=tf.float32)
        # TensorFlow's convolutions fail on an empty batch, so it embeds a blank image and drops the result.
        blank = tf.zeros([1, *images.shape[1:]])
        batch = tf.cond(tf.size(image_bytes) > 0, lambda: images, lambda: blank)
        return {"embedding": model(batch, training=False)[: tf.size(image_bytes)]}

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serving_default", serve, [tf.TensorSpec([None], tf.string, name="image_bytes")])
    archive.write_out(str(path), verbose=False)
