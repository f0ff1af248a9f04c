"""Stored features: vectors that a network has computed, for heads that are trained without it."""

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

# A file or folder, or several whose vectors stand side by side.
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
    """Stored features: what tfdml.embed writes, or `.npy`, `.npz` and Parquet files of other software.

    Heads are trained on them without the network that made them.

    Args:
        path: folder of `python -m tfdml.embed`; or `.npz` or Parquet file with `embeddings`, `labels`, and the columns
            `cameras`, `groups`, `is_query` and `is_gallery` where wanted; or `.npy` file. Several, in a tuple, have the
            same rows, and their vectors stand side by side.
        test: the same of the test classes. Default: a part of the classes in `path`, see `test_classes`.
        labels, test_labels: `.npy` files with a label for each row, for `.npy` files.
        test_classes: fraction of the classes to test on, such as 0.3, without `test`.
        seed: decides which classes test.
    """
    if (test is None) == (test_classes is None):
        raise ValueError(
            "embeddings needs test, the file of the test classes, or test_classes, a fraction of the classes in path; "
            f"received {'neither' if test is None else 'both'}."
        )
    about = {"protocol": "query_gallery"}
    if test is None:
        (rows,) = _splits([_read(path, labels)])
        return Undivided(rows, test_classes, seed).divide("embeddings", **about)
    parts = _read(path, labels), _read(test, test_labels)
    widths = [sum(file.embeddings.shape[1] for file in part) for part in parts]
    if widths[0] != widths[1]:
        raise ValueError(f"{path} has vectors of {widths[0]} dimensions, and {test} of {widths[1]}: expected the same.")
    train, tested = _splits(parts)
    return Dataset("embeddings", dataclasses.replace(train, **MARKS), tested, **about)


def _read(paths, labels):
    """Returns the `EmbeddingFiles` of one path or several, all of the same rows."""
    paths = [os.path.expanduser(path) for path in (paths if isinstance(paths, tuple) else [paths])]
    arrays = [path for path in paths if path.endswith(".npy")]
    if bool(arrays) != bool(labels):
        needs = f"{arrays[0]} needs labels" if arrays else f"labels={labels} has no use"
        raise ValueError(f"{needs}: a .npy file has vectors alone, and labels are a .npy file of their own.")
    files = [EmbeddingFiles.read(path, os.path.expanduser(labels) if path in arrays else "") for path in paths]
    for name, file in zip(paths, files, strict=True):
        if file.embeddings.dtype.kind not in "fiu":
            raise ValueError(f"{name}: expected embeddings that are numbers, received {file.embeddings.dtype}.")
        try:
            check_finite(file.embeddings)
        except ValueError as error:
            raise ValueError(f"{name}: {error} Leave it out, or compute it again.") from None
        if len(file.labels) != len(files[0].labels) or _names(file) != _names(files[0]):
            raise ValueError(f"{name} has other rows than {paths[0]}: expected the same labels in the same order.")
    return files


def _names(file):
    """Returns the label of each row as text."""
    names = file.class_names
    return [names[label] if names else str(label) for label in file.labels.tolist()]


def _splits(parts):
    """Returns the `Split` of each part, a list of `EmbeddingFiles`; a class has the same number in all of them."""
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
