"""Stored features: vectors that a network has computed, to train heads without it."""

import dataclasses
import os
from typing import Annotated

import numpy as np

from pipelines.dataset import Dataset, Split, TestClasses
from pipelines.labels import MARKS, Undivided, class_numbers_of
from pipelines.stored import StoredVectors
from tfdml.files.embeddings import COLUMNS, EmbeddingFiles
from tfdml.neighbors.clustering import check_finite
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, either, path, several

# A file or folder, or several with vectors that are concatenated.
FILES = either(several(path()), path())
Files = Annotated[FilePath | tuple[FilePath, ...], FILES]


@register("dataset", "embeddings")
def embeddings(
    path: Files,
    test: Files | None = None,
    labels: FilePath | None = None,
    test_labels: FilePath | None = None,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
) -> Dataset:
    """Loads stored features instead of images: folders of tfdml.embed, or `.npy`, `.npz` and Parquet files.

    Use it to train heads quickly, without running the network that computed the features.

    Args:
        path: Path of a folder written by `python -m tfdml.embed`, of an `.npz` or Parquet file with `embeddings` and
            `labels` and optionally `cameras`, `groups`, `is_query` and `is_gallery`, or of an `.npy` file. Or a tuple
            of several paths with the same rows, so that their vectors are concatenated.
        test: The same for the test classes, or `None`. If `None`, set `test_classes`. Defaults to `None`.
        labels, test_labels: Paths of `.npy` files with one label per row, for `.npy` files. Default to `None`.
        test_classes: Float or `None`. Fraction of the classes in `path` to test on, for example 0.3, instead of
            `test`. Defaults to `None`.
        seed: Integer. Determines the test classes. Defaults to `0`.
    """
    if (test is None) == (test_classes is None):
        raise ValueError(
            "The dataset embeddings needs either test, the path of the test features, or test_classes, the fraction of "
            f"the classes in path to test on. Received: {'neither' if test is None else 'both'}."
        )
    about = {"protocol": "query_gallery"}
    if test is None:
        (rows,) = _splits([read_alike(path, labels)])
        return Undivided(rows, test_classes, seed).divide("embeddings", **about)
    parts = read_alike(path, labels), read_alike(test, test_labels)
    widths = [sum(file.embeddings.shape[1] for file in part) for part in parts]
    if widths[0] != widths[1]:
        raise ValueError(
            f"Vectors in {path} and {test} must have the same number of dimensions. Received: {widths[0]} and "
            f"{widths[1]}."
        )
    train, tested = _splits(parts)
    return Dataset("embeddings", dataclasses.replace(train, **MARKS), tested, **about)


def read_alike(paths, labels=None):
    """Returns the `EmbeddingFiles` of one or several paths, which must have the same labels in the same order."""
    paths = [os.path.expanduser(path) for path in (paths if isinstance(paths, tuple) else [paths])]
    arrays = [path for path in paths if path.endswith(".npy")]
    if bool(arrays) != bool(labels):
        if arrays:
            raise ValueError(f"{arrays[0]} contains only vectors. Pass labels=..., a .npy file with one label per row.")
        raise ValueError(f"labels={labels} is only used with .npy files. Remove it, because {paths[0]} has labels.")
    files = [EmbeddingFiles.read(path, os.path.expanduser(labels) if path in arrays else "") for path in paths]
    for name, file in zip(paths, files, strict=True):
        if file.embeddings.dtype.kind not in "fiu":
            raise ValueError(f"Embeddings in {name} must be numbers. Received: dtype={file.embeddings.dtype}.")
        try:
            check_finite(file.embeddings)
        except ValueError as error:
            raise ValueError(f"{name}: {error} Remove its row, or compute it again.") from None
        if len(file.labels) != len(files[0].labels) or _names(file) != _names(files[0]):
            raise ValueError(f"{name} and {paths[0]} must have the same labels in the same order.")
    return files


def _names(file):
    """Returns the label of each row as text."""
    names = file.class_names
    return [names[label] if names else str(label) for label in file.labels.tolist()]


def _splits(parts):
    """Returns the `Split` of each part, a list of `EmbeddingFiles`, with the same label for a class in all of them."""
    names = [_names(files[0]) for files in parts]
    labels, class_names = class_numbers_of(sum(names, []))
    ends = np.cumsum([len(part) for part in names])
    return [
        Split(
            StoredVectors([file.embeddings for file in files]),
            own,
            class_names=class_names,
            **{column: getattr(files[0], column) for column in COLUMNS},
        )
        for files, own in zip(parts, np.split(labels, ends[:-1]), strict=True)
    ]
