"""Loads and checks exported SavedModels, which turn image files into embeddings."""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.checks import MOST_PIXELS, as_decodable
from pipelines.dataset import Split
from pipelines.images.decoding import why_costly
from pipelines.operations import tf
from pipelines.reading.unreadable import READING_ERRORS
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import fingerprint
from tfdml.registry.arguments import FilePath, Verbosity
from tfdml.runtime.backends import refuse_unless_tensorflow
from tfdml.serving.embedding import embed_rows
from tfdml.serving.image_list import ImageList
from tfdml.serving.model_card import read_card


def decoded(image_bytes, preprocessor):
    """Returns pixels for `preprocessor.normalize`, `[B, H, W, 3]`, and whether each of the files `[B]` could be read.

    Without files, it returns one blank image and one mask value. An unreadable image becomes zeros. Headers are checked
    before anything is decoded.
    """
    # As a tf.function, it is traced once, although it is called in two places.
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

    # Only tf.data can catch errors in a graph. Decoding images one by one takes several times as long, so decode all of
    # them at once first.
    batch = tf.data.Dataset.from_tensors(contents)
    found = batch.map(of_all).ignore_errors().concatenate(batch.flat_map(of_each)).take(1)
    options = tf.data.Options()
    options.deterministic = True
    # The dataset is rebuilt for each batch, so optimizing so short a pass would only cost time.
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return found.with_options(options).get_single_element()


def check_all(valid):
    """Returns an operation that fails if an entry of `valid`, `[B]`, is False, with an error that names the entry."""
    first = tf.argmin(tf.cast(valid, tf.int32))
    reason = f"of the batch cannot be read. Expected a JPEG, PNG or still WebP of at most {MOST_PIXELS} pixels."
    return tf.raw_ops.Assert(condition=tf.reduce_all(valid), data=["Image", first, reason])


# Files that TensorFlow reads from a SavedModel's folder. The model card is not among them, because people may edit it.
READ = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets/*", "assets.extra/**/*")
# The files of a tokenizer that is not part of the graph.
TOKENIZER = "assets.extra/tokenizer"
# Number of texts that are embedded at once.
TEXTS = 256


def saved_model_folder(path):
    """Returns the folder of a SavedModel: the path itself, or the only version in it.

    For example, it returns `exported/1` for `exported/1` and for `exported`. Otherwise, it raises a ValueError with
    advice.
    """
    folder = Path(path)
    if (folder / "saved_model.pb").is_file():
        return folder
    versions = sorted(file.parent for file in folder.glob("*/saved_model.pb") if file.parent.name.isdecimal())
    if len(versions) == 1:
        return versions[0]
    if versions:
        raise ValueError(f"{path} contains several versions of a model. Pass one of {', '.join(map(str, versions))}.")
    raise ValueError(f"{path} {_instead(folder)}")


def _instead(folder):
    """Returns what the path is instead of a SavedModel, and how to get one."""
    run = next((each for each in (folder, folder.parent) if (each / "flags.txt").is_file()), "runs/...")
    how = f"python -m tfdml.export --run_dir={run} --out=exported/1, then pass exported/1."
    if not folder.exists():
        return f"does not exist. Expected the folder of an exported model. Export one: {how}"
    if folder.is_file():
        return f"is a file. Expected the folder of an exported model. Export the model's run: {how}"
    if run == folder:
        return f"is a run directory, which is not an exported model. Export the model: {how}"
    return f"is not a SavedModel, because it has no saved_model.pb. Export one: {how}"


def model_files(path):
    """Returns the files that make up a SavedModel, relative to its folder, sorted."""
    folder = Path(path)
    return sorted(file.relative_to(folder).as_posix() for kind in READ for file in folder.glob(kind) if file.is_file())


def model_hash(path):
    """Returns the SHA-256 of a SavedModel in hexadecimal, computed from the names and contents of all its files."""
    names = model_files(path)
    if "saved_model.pb" not in names:
        raise ValueError(
            f"{path} is not a SavedModel, because it has no saved_model.pb. Export one with python -m tfdml.export."
        )
    lines = [f"{fingerprint(Path(path) / name)['sha256']}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class ExportedModel:
    """SavedModel that turns image files into embeddings.

    `python -m tfdml.export` and `tfdml.serving.export` write such models. Use this class to embed files without the
    code that defined and trained the model. Several threads may use one object at once. To search with the embeddings,
    pass the object, or its folder, to `tfdml.Index`.

    Args:
        path: Folder of the SavedModel, or a folder with a single version of it.

    Raises:
        ValueError: If the folder does not exist, does not contain a SavedModel, or contains one that does not map
            `image_bytes` to `embedding`.

    Example:

    ```python
    from pipelines.preprocessor import Preprocessor

    model = tfdml.Single(tfdml.backbones.Small(), embedding_size=64)
    model(np.zeros((1, 32, 32, 3), "float32"))
    preprocessor = Preprocessor.of(tfdml.Preprocessing.of(model, image_size=32))
    tfdml.serving.export(model, preprocessor, "exported/1")

    keras.utils.save_img("cup.jpg", np.zeros((40, 40, 3)))
    files = [open("cup.jpg", "rb").read(), b"not an image"]
    embeddings, readable = tfdml.serving.ExportedModel("exported/1").embed_readable(files)
    readable.tolist()  # [True, False]
    ```
    """

    def __init__(self, path: FilePath):
        refuse_unless_tensorflow(f"The SavedModel {path}", "Use a .keras file")
        self.path = path = saved_model_folder(path)
        try:
            # Keep the model, because its functions are only valid as long as it exists.
            self._model = tf.saved_model.load(str(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"The SavedModel {path} cannot be read. Export it again: {error}") from error
        self._serve = self.signatures.get("serving_default")
        if not self._serve or not _takes_files(self._serve):
            raise ValueError(
                f"The SavedModel {path} has no signature serving_default that maps image_bytes (strings) to embedding. "
                "Use a model that `python -m tfdml.export` has written."
            )

    @property
    def signatures(self) -> Mapping[str, Callable[..., Any]]:
        """Functions of the model by signature name; see `tfdml.serving.export`."""
        return self._model.signatures

    @property
    def dimension(self) -> int:
        """Size of an embedding."""
        return self._serve.structured_outputs["embedding"].shape[-1]

    @property
    def metric(self) -> str:
        """How embeddings are compared, `"cosine"` or `"euclidean"`. Without a model card, it is `"cosine"`."""
        return read_card(self.path).get("embedding", {}).get("metric", "cosine")

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the model's files in hexadecimal."""
        return model_hash(self.path)

    def read(self, contents: bytes) -> Any:
        """Decodes and resizes one image file for `embed_readable`.

        Use it to decode images in separate threads, and embed them together later.

        Args:
            contents: Bytes. Contents of the file.

        Returns:
            Pixels, float32 `[H, W, 3]`, or `None` if the image cannot be read or takes too long to decode.
        """
        if why_costly(contents):
            return None
        try:
            return self.signatures["read_image"](image_bytes=tf.constant(as_decodable(contents)))["image"].numpy()
        except READING_ERRORS:
            return None

    def embed_readable(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Embeds images in one batch and reports which of them could be read.

        Args:
            images: List of the contents of image files (bytes), or of results of `read`.

        Returns:
            A tuple of the embeddings, float32 `[B, D]`, and a mask `[B]` that is True for readable images. Images that
            take too long to decode count as unreadable. Ignore the embeddings of unreadable images.
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

    @property
    def has_texts(self) -> bool:
        """Whether the model embeds texts as well."""
        return "embed_tokens" in self.signatures

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts in the space of the images.

        Args:
            texts: Sequence of N strings.

        Returns:
            Embeddings, float32 `[N, D]`.

        Raises:
            ValueError: If the model has no text tower.
            ImportError: If the tokenizer needs a package that is not installed.
        """
        if not self.has_texts:
            raise ValueError(
                f"The model {self.path} cannot embed texts, because it has no text tower. Export a model with "
                "--method=two_towers."
            )
        if "embed_text" in self.signatures:
            name, rows = "text", tf.constant(list(texts), tf.string)
        else:
            name, rows = "tokens", tf.constant(self._tokenizer(texts))
        embed = self.signatures[f"embed_{name}"]
        parts = [embed(**{name: rows[start : start + TEXTS]}) for start in range(0, max(len(rows), 1), TEXTS)]
        return np.concatenate([part["embedding"].numpy() for part in parts])

    @functools.cached_property
    def _tokenizer(self):
        # Imported here, because most models have no texts, and importing keras-hub is slow.
        from tfdml.texts.tokenizers import load_tokenizer

        return load_tokenizer(Path(self.path) / TOKENIZER)

    def _tried(self, contents):
        try:
            outputs = self._serve(image_bytes=tf.constant(contents, tf.string))
            embeddings = outputs["embedding"].numpy().astype(np.float32, copy=False)
            return embeddings, outputs["valid"].numpy() if "valid" in outputs else np.ones(len(embeddings), bool)
        except READING_ERRORS:
            if len(contents) == 1:
                return np.zeros((1, self.dimension), np.float32), np.zeros(1, bool)
        # A model that was exported without `tolerant` does not report which images are unreadable, so try them one by
        # one.
        found = [self._tried([each]) for each in contents]
        embeddings, valid = zip(*found, strict=True)
        return np.concatenate(embeddings), np.concatenate(valid)

    def embed_split(self, split: Split, batch_size: int = 128, verbose: Verbosity = "auto") -> np.ndarray:
        """Embeds all images of a `pipelines.datasets.Split`.

        Args:
            split: `pipelines.datasets.Split` of whole images.
            batch_size: Integer. Number of images per batch. Defaults to `128`.
            verbose: Whether to show a progress bar: `0`, `1` or `"auto"`. Defaults to `"auto"`.

        Returns:
            Embeddings, float32 `[N, D]`.

        Raises:
            ValueError: If an image cannot be read, or the dataset crops images to bounding boxes.
        """
        if split.boxes is not None:
            raise ValueError(
                f"The SavedModel {self.path} embeds whole images, but the dataset crops them to bounding boxes."
            )
        count, encoded = len(split), split.encoded
        paths = [f"Image {row}" for row in range(count)] if encoded else split.images.tolist()
        images = ImageList(paths, [None] * count, split.images if encoded else None)
        bar = ProgressBar(count, "image", verbose=None if verbose == "auto" else verbose)

        def refuse(row, reason):
            name = "" if encoded else f", {paths[row]},"
            raise ValueError(f"Image {row}{name} cannot be read: {reason}.")

        options = {"on_bad": refuse, "on_batch": bar.add, "batch_size": batch_size}
        return embed_rows(images, range(count), self, **options)[1]


def _takes_files(function):
    inputs = function.structured_input_signature[1]
    strings = [name for name, spec in inputs.items() if spec.dtype == tf.string]
    return list(inputs) == strings == ["image_bytes"] and "embedding" in function.structured_outputs
