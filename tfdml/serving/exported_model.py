"""Exported SavedModels that take image files, their signatures and their hash."""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.checks import MOST_PIXELS, as_decodable
from pipelines.dataset import Split
from pipelines.images.decoding import why_costly
from pipelines.reading.unreadable import READING_ERRORS
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import fingerprint
from tfdml.registry.arguments import FilePath
from tfdml.serving.embedding import embed_rows
from tfdml.serving.image_list import ImageList
from tfdml.serving.model_card import read_card


def decoded(image_bytes, preprocessor):
    """Returns pixels that `preprocessor.normalize` takes, and whether each image could be read.

    They are `[B, H, W, 3]` and `[B]` for contents of files `[B]`; of no file, one of each.

    An image that cannot be read is zeros. Its header is checked before it is decoded.
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
    options = tf.data.Options()
    options.deterministic = True
    # There is nothing to improve in so short a pass, which is built anew for each batch.
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return found.with_options(options).get_single_element()


def check_all(valid):
    """Returns an operation that fails if an image is not valid, `[B]`, and names its position in the batch."""
    first = tf.argmin(tf.cast(valid, tf.int32))
    reason = f"of the batch cannot be read: expected a JPEG, PNG or still WebP of at most {MOST_PIXELS} pixels."
    return tf.raw_ops.Assert(condition=tf.reduce_all(valid), data=["Image", first, reason])


# What TensorFlow reads of a SavedModel's folder; the model card, which people may edit, is not among it.
READ = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets/*", "assets.extra/*")


def saved_model_folder(path):
    """Returns the folder of the SavedModel that is meant: this one, or the only version in it.

    For example, `exported/1` or `exported`. A ValueError about another one says what to do.
    """
    folder = Path(path)
    if (folder / "saved_model.pb").is_file():
        return folder
    versions = sorted(file.parent for file in folder.glob("*/saved_model.pb") if file.parent.name.isdecimal())
    if len(versions) == 1:
        return versions[0]
    if versions:
        raise ValueError(f"{path} has several versions of a model; give one of {', '.join(map(str, versions))}.")
    raise ValueError(f"{path} {_instead(folder)}")


def _instead(folder):
    """Returns what a path is that is no SavedModel, and how to get one."""
    run = next((each for each in (folder, folder.parent) if (each / "flags.txt").is_file()), "runs/...")
    how = f"python -m tfdml.export --run_dir={run} --out=exported/1, then give exported/1."
    if not folder.exists():
        return f"does not exist: expected the folder of an exported model. Export one: {how}"
    if folder.is_file():
        return f"is a file: expected the folder of an exported model. Export the model's run: {how}"
    if run == folder:
        return f"is a run, and its model is not exported. Export it: {how}"
    return f"is no SavedModel: it has no saved_model.pb. Export one: {how}"


def model_files(path):
    """Returns the files that make up a SavedModel, relative to its folder, sorted."""
    folder = Path(path)
    return sorted(file.relative_to(folder).as_posix() for kind in READ for file in folder.glob(kind) if file.is_file())


def model_hash(path):
    """Returns the SHA-256 of a SavedModel, as hexadecimal digits: of the names and contents of all its files."""
    names = model_files(path)
    if "saved_model.pb" not in names:
        raise ValueError(f"{path} is no SavedModel: it has no saved_model.pb. Export one with python -m tfdml.export.")
    lines = [f"{fingerprint(Path(path) / name)['sha256']}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class ExportedModel:
    """A SavedModel from `image_bytes`, strings `[B]`, to `embedding`, `[B, D]`, as `python -m tfdml.export` writes it.

    It may be used by several threads at once.

    Args:
        path: its folder, or the one of its only version.
    """

    def __init__(self, path: FilePath):
        self.path = path = saved_model_folder(path)
        try:
            # Functions of a model live as long as it does.
            self._model = tf.saved_model.load(str(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"Cannot read the SavedModel {path}; export it again: {error}") from error
        self._serve = self.signatures.get("serving_default")
        if not self._serve or not _takes_files(self._serve):
            raise ValueError(
                f"The SavedModel {path} has no signature serving_default from image_bytes, strings, to embedding, as "
                "`python -m tfdml.export` writes it."
            )

    @property
    def signatures(self) -> Mapping[str, Callable[..., Any]]:
        """Name to function, see `tfdml.serving.export`."""
        return self._model.signatures

    @property
    def dimension(self) -> int:
        """Number of dimensions of the embedding."""
        return self._serve.structured_outputs["embedding"].shape[-1]

    @property
    def metric(self) -> str:
        """How embeddings are compared, `cosine` or `euclidean`, as the model's card says; `cosine` without a card."""
        return read_card(self.path).get("embedding", {}).get("metric", "cosine")

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of its files, see `model_hash`."""
        return model_hash(self.path)

    def read(self, contents: bytes) -> Any:
        """Returns what `embed_readable` takes of an image file: its pixels, or None if it cannot be read."""
        if why_costly(contents):
            return None
        try:
            return self.signatures["read_image"](image_bytes=tf.constant(as_decodable(contents)))["image"].numpy()
        except READING_ERRORS:
            return None

    def embed_readable(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[B, D]`, float32, and whether each image could be read, `[B]`; all are embedded at once.

        An embedding of an image that cannot be read means nothing. One that takes too long to decode counts as such.

        Args:
            images: list of the contents of image files (bytes), or of what `read` returned of them.
        """
        embeddings, valid = np.zeros((len(images), self.dimension), np.float32), np.ones(len(images), bool)
        files = np.array([isinstance(image, bytes) for image in images], bool)
        read, unread = np.flatnonzero(~files), np.flatnonzero(files)
        if len(read):
            pixels = tf.constant(np.stack([images[place] for place in read]))
            embeddings[read] = self.signatures["embed_images"](images=pixels)["embedding"].numpy()
        if len(unread):
            contents = [b"" if why_costly(images[place]) else as_decodable(images[place]) for place in unread]
            embeddings[unread], valid[unread] = self._tried(contents)
        return embeddings, valid

    def _tried(self, contents):
        try:
            outputs = self._serve(image_bytes=tf.constant(contents, tf.string))
            embeddings = outputs["embedding"].numpy().astype(np.float32, copy=False)
            return embeddings, outputs["valid"].numpy() if "valid" in outputs else np.ones(len(embeddings), bool)
        except READING_ERRORS:
            if len(contents) == 1:
                return np.zeros((1, self.dimension), np.float32), np.zeros(1, bool)
        # The model does not say which others cannot be read.
        found = [self._tried([each]) for each in contents]
        embeddings, valid = zip(*found, strict=True)
        return np.concatenate(embeddings), np.concatenate(valid)

    def embed_split(self, split: Split, batch_size: int = 128) -> np.ndarray:
        """Returns the embeddings `[N, D]` of the images of a `pipelines.datasets.Split`; all have to be readable."""
        if split.boxes is not None:
            raise ValueError(f"The SavedModel {self.path} takes whole images, but the dataset crops them to boxes.")
        count, encoded = len(split), split.encoded
        paths = [f"Image {row}" for row in range(count)] if encoded else split.images.tolist()
        images, bar = ImageList(paths, [None] * count, split.images if encoded else None), ProgressBar(count, "image")

        def refuse(row, reason):
            name = "" if encoded else f", {paths[row]},"
            raise ValueError(f"Image {row}{name} cannot be read: {reason}.")

        options = {"on_bad": refuse, "on_batch": bar.add, "batch_size": batch_size}
        return embed_rows(images, range(count), self, **options)[1]


def _takes_files(function):
    inputs = function.structured_input_signature[1]
    strings = [name for name, spec in inputs.items() if spec.dtype == tf.string]
    return list(inputs) == strings == ["image_bytes"] and "embedding" in function.structured_outputs
