"""SavedModels that accept image files, return embeddings and run without tfdml."""

import functools
from pathlib import Path
from typing import Any

import keras

from pipelines.operations import tf
from pipelines.preprocessing import VectorPreprocessing
from tfdml.methods import EmbeddingModel, TwoTowers
from tfdml.registry.arguments import FilePath
from tfdml.runtime.backends import refuse_unless_tensorflow
from tfdml.serving.exported_model import TOKENIZER, check_all, decoded


def export(
    model: keras.Model, preprocessor: Any, path: FilePath, *, tolerant: bool = False, projection: Any = None
) -> None:
    """Writes a SavedModel that embeds image files and runs without tfdml.

    Use it to deploy a Keras model. For a run, use `python -m tfdml.export`, which also writes a model card. These are
    the signatures:

    | Signature | Input | Output |
    |---|---|---|
    | `serving_default` | `image_bytes`, strings `[B]` | `embedding`, `[B, D]` |
    | `embed_images` | `images`, float32 `[B, H, W, 3]`, decoded and resized, from 0 to 255 | `embedding`, `[B, D]` |
    | `read_image` | `image_bytes`, a string `[]` | `image`, `[H, W, 3]`, for a batch of `embed_images` |
    | `embed_learners`, for several learners | `image_bytes`, strings `[B]` | `embeddings`, `[B, K, d]` |
    | `embed_text`, for `tfdml.TwoTowers` | `text`, strings `[B]` | `embedding`, `[B, D]` |
    | `embed_tokens`, for `tfdml.TwoTowers` | `tokens`, int32 `[B, L]` | `embedding`, `[B, D]` |

    A text tower of keras-hub has no `embed_text`, because its tokenizer needs other libraries. The folder
    `assets.extra/tokenizer` then has the files of the tokenizer.

    A model of stored features has only `serving_default` from `features`, float32 `[B, D]`, and `embed_learners`.

    Args:
        model: Keras model from preprocessed images to embeddings. It must have been called once, or trained.
        preprocessor: `pipelines.preprocessor.Preprocessor`, the same as in evaluation.
        path: Folder to write to.
        tolerant: Boolean. If `True`, signatures with `image_bytes` return zeros for unreadable files, and another
            output `valid`, booleans `[B]`. If `False`, an unreadable file is an error that names its position in the
            batch. Defaults to `False`.
        projection: `Projection` or `Prefix` that is applied to the embeddings. If `None`, they are exported as they
            are. Defaults to `None`.

    Example:

    ```python
    from pipelines.preprocessor import Preprocessor

    model = tfdml.Single(tfdml.backbones.Small(), embedding_size=64)
    model(np.zeros((1, 32, 32, 3), "float32"))
    preprocessor = Preprocessor.of(tfdml.Preprocessing.of(model, image_size=32))
    tfdml.serving.export(model, preprocessor, "exported/1")
    tfdml.serving.ExportedModel("exported/1").dimension  # 64
    ```
    """
    refuse_unless_tensorflow("tfdml.serving.export", "Save the model with model.save")
    project = projection or tf.identity
    if isinstance(preprocessor, VectorPreprocessing):
        _export_of_vectors(model, preprocessor, path, project)
        return
    files = [tf.TensorSpec([None], tf.string, name="image_bytes")]
    pixels = [tf.TensorSpec([None, *preprocessor.image_shape], tf.float32, name="images")]
    # As a tf.function, it is traced only once for all signatures.
    read = tf.function(lambda image_bytes: decoded(image_bytes, preprocessor), files, autograph=False)

    from_files = functools.partial(_from_files, read, preprocessor.normalize, tolerant)

    def read_image(image_bytes):
        return {"image": preprocessor.pixels(image_bytes, tf.zeros([2], tf.int64))}

    def embed_images(images):
        # An empty batch needs a blank image, because TensorFlow's convolutions fail on empty batches.
        blank = tf.zeros([tf.cast(tf.shape(images)[0] == 0, tf.int32), *preprocessor.image_shape])
        normalized = preprocessor.normalize(tf.concat([images, blank], 0))
        return {"embedding": project(model(normalized, training=False))[: tf.shape(images)[0]]}

    embed = from_files("embedding", lambda images: project(model(images, training=False)))
    # Don't track the model: the archive finds the variables of its endpoints, and would save a tracked model's
    # variables a second time.
    archive = keras.export.ExportArchive()
    archive.add_endpoint("serving_default", embed, files)
    archive.add_endpoint("embed_images", embed_images, pixels)
    archive.add_endpoint("read_image", read_image, [tf.TensorSpec([], tf.string, name="image_bytes")])
    # The number of learners is only known now, after the model has been called.
    if _has_learners(model):
        archive.add_endpoint("embed_learners", from_files("embeddings", model.learner_embeddings), files)
    if isinstance(model, TwoTowers):
        _add_texts(archive, model, project)
    archive.write_out(str(path), verbose=False)
    if isinstance(model, TwoTowers) and not model.text.tokenizer.is_portable:
        folder = Path(path) / TOKENIZER
        folder.mkdir(parents=True)
        model.text.tokenizer.save_files(folder)


def _add_texts(archive, model, project):
    """Adds the signatures that embed texts or, if the tokenizer is not part of the graph, only their tokens."""
    tokenizer = model.text.tokenizer

    def embed_tokens(tokens):
        return {"embedding": project(model.embed_tokens(tokens))}

    tokens = [tf.TensorSpec([None, tokenizer.length], tf.int32, name="tokens")]
    archive.add_endpoint("embed_tokens", embed_tokens, tokens)
    if tokenizer.is_portable:
        texts = [tf.TensorSpec([None], tf.string, name="text")]
        archive.add_endpoint("embed_text", lambda text: embed_tokens(tokenizer.in_graph(text)), texts)


def _from_files(read, normalize, tolerant, name, embed):
    """Returns the function of a signature from image files to an output with this name, which `embed` computes."""

    def serve(image_bytes):
        count = tf.size(image_bytes)
        images, valid = read(image_bytes)
        images = normalize(images)
        if tolerant:
            found = embed(images)
            mask = tf.reshape(valid, [-1] + [1] * (len(found.shape) - 1))
            return {name: tf.where(mask, found, 0.0)[:count], "valid": valid[:count]}
        with tf.control_dependencies([check_all(valid | (count == 0))]):
            return {name: embed(tf.identity(images))[:count]}

    return serve


def _export_of_vectors(model, preprocessing, path, project):
    vectors = [tf.TensorSpec([None, preprocessing.dims], tf.float32, name="features")]
    archive = keras.export.ExportArchive()

    def embed(features):
        return {"embedding": project(model(features, training=False))}

    def embed_learners(features):
        return {"embeddings": model.learner_embeddings(features)}

    archive.add_endpoint("serving_default", embed, vectors)
    if _has_learners(model):
        archive.add_endpoint("embed_learners", embed_learners, vectors)
    archive.write_out(str(path), verbose=False)


def _has_learners(model):
    return isinstance(model, EmbeddingModel) and model.learner_count > 1
