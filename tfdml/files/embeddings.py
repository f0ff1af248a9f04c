"""Reads embeddings and labels from `.npy`, `.npz` and Parquet files, and from folders of `python -m tfdml.embed`."""

import contextlib
import dataclasses
import os
import tempfile
import zipfile

import numpy as np

from tfdml.files.checked import BROKEN, check_zip, open_file, reason_of
from tfdml.files.shards import MOST_TEXT, EmbeddingShards, is_of_texts, read_columns, values_of

# Columns of a `pipelines.datasets.Split` that evaluation protocols use.
COLUMNS = {"cameras": np.int64, "groups": np.int64, "is_query": bool, "is_gallery": bool}
MOST_NUMBER = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True)
class EmbeddingFiles:
    """Embeddings `[N, d]` and the columns `[N]` that evaluation protocols use.

    Embeddings from a `.npy` file or a folder are memory-mapped. Labels are integers. If they were strings,
    `class_names` maps the integers to them.
    """

    embeddings: np.ndarray
    labels: np.ndarray
    class_names: dict | None = None
    cameras: np.ndarray | None = None
    groups: np.ndarray | None = None
    is_query: np.ndarray | None = None
    is_gallery: np.ndarray | None = None

    @classmethod
    def read(cls, path, labels_path=""):
        """Reads a `.npy` file `[N, d]`, a `.npz` file or Parquet table with all columns, or a folder of `tfdml.embed`.

        `labels_path` is a `.npy` file of integers or strings. Only a `.npy` file needs it.
        """
        kind = "folder" if os.path.isdir(path) else os.path.splitext(path)[1]
        readers = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet, "folder": _read_folder}
        if kind not in readers:
            raise ValueError(
                f"{path} is not an embedding file. Expected a folder, or a file that ends in .npy, .npz or .parquet."
            )
        if kind != "folder" and not os.path.exists(path):
            raise ValueError(f"{path} does not exist. Expected an embedding file or a folder of tfdml.embed.")
        if bool(labels_path) != (kind == ".npy"):
            raise ValueError(
                f"{path} needs --labels, a .npy file with one label per row."
                if kind == ".npy"
                else f"{path} contains the labels. Remove --labels={labels_path}."
            )
        contents = readers[kind](path)
        if labels_path:
            contents["labels"] = _read_npy(labels_path)["embeddings"]
        missing = [name for name in ("embeddings", "labels") if name not in contents]
        if missing:
            held = ", ".join(contents) or "nothing"
            raise ValueError(f"{path} has no {' and no '.join(missing)}. It contains {held}.")
        try:
            return cls._checked(path, labels_path or path, contents)
        except MemoryError as error:
            raise ValueError(f"{path} cannot be read: {reason_of(error)}.") from None

    @classmethod
    def _checked(cls, path, labels_path, contents):
        embeddings, labels = contents["embeddings"], np.asarray(contents["labels"])
        if embeddings.ndim != 2 or not embeddings.shape[0]:
            raise ValueError(f"{path}: embeddings must have the shape [N, d]. Received: shape {embeddings.shape}.")
        columns = {name: np.asarray(contents[name]) for name in COLUMNS if name in contents}
        for name, column in {"labels": labels, **columns}.items():
            file = labels_path if name == "labels" else path
            if column.shape != (len(embeddings),):
                raise ValueError(
                    f"{file}: {name} must have the shape [{len(embeddings)}], one for each embedding. Received: "
                    f"shape {column.shape}."
                )
            longest = column.dtype.itemsize // (4 if column.dtype.kind == "U" else 1)
            if column.dtype.kind in "US" and longest > MOST_TEXT:
                raise ValueError(
                    f"{file}: a string in {name} has {longest:,} characters. At most {MOST_TEXT:,} are allowed."
                )
        if labels.dtype.kind not in "iuUS" and not _are_texts(labels):
            raise ValueError(f"{labels_path}: labels must be integers or strings. Received: {labels.dtype}.")
        class_names = contents.get("class_names")
        if labels.dtype.kind in "USO" or labels.max() > MOST_NUMBER:
            class_names, labels = _named(labels_path, "labels", labels)
        typed = {name: _typed(path, name, column) for name, column in columns.items()}
        return cls(embeddings, labels.astype(np.int64), class_names, **typed)


def read_arrays(path):
    """Returns the arrays in a `.npz` file by name, or `embeddings`, memory-mapped, from a `.npy` file."""
    return _read_npz(path) if str(path).endswith(".npz") else _read_npy(path)


def _are_texts(column):
    return column.dtype == object and all(isinstance(value, str) for value in column)


def _named(path, what, column):
    """Returns a dictionary from integers to names, and integers `[N]`, for strings or labels of more than 63 bits."""
    try:
        # NumPy strings would each need the space of the longest one.
        values = column.tolist()
        values = [value.decode("ascii") for value in values] if column.dtype.kind == "S" else values
    except (ValueError, SystemError):
        # A string may contain code points that do not exist.
        raise ValueError(f"{path}: {what} must be strings or ASCII bytes.") from None
    names = sorted(set(values))
    numbers = {name: number for number, name in enumerate(names)}
    return dict(enumerate(map(str, names))), np.array([numbers[value] for value in values], np.int64)


def _typed(path, name, column):
    if COLUMNS[name] is bool:
        fits, words = column.dtype.kind in "biu" and np.isin(column, (0, 1)).all(), "True and False, or 1 and 0"
    else:
        fits, words = column.dtype.kind in "iuU" or _are_texts(column), "integers or strings"
    if not fits:
        received = "other numbers" if column.dtype.kind in "iu" else f"type {column.dtype}"
        raise ValueError(f"{path}: {name} must be {words}. Received: {received}.")
    if column.dtype.kind in "UO":
        column = _named(path, name, column)[1]
    return column.astype(COLUMNS[name])


def _read_npy(path):
    return {"embeddings": _loaded(path, mmap_mode="r")}


def _read_npz(path):
    with _loaded(path) as arrays:
        try:
            members = {name: arrays[name] for name in arrays.files}
            # NumPy returns bytes for members that are not arrays.
            others = [name for name, value in members.items() if not isinstance(value, np.ndarray)]
            if others:
                raise ValueError(f"its member {others[0]} is not an array")
            return members
        except BROKEN as error:
            raise _error_of(path, error) from error


def _loaded(path, **options):
    try:
        with open_file(path) as file:
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    check_zip(archive)
        return np.load(path, allow_pickle=False, **options)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist.") from None
    except BROKEN as error:
        raise _error_of(path, error) from error


def _error_of(path, error):
    if "Object arrays" in str(error) or "Python objects" in str(error):
        return ValueError(
            f"{path} contains an array of Python objects. Save strings as a string array: array.astype(str)."
        )
    reason = reason_of(error).rstrip(".")
    return ValueError(f"{path} cannot be read: {reason}. Write it again with numpy.save or numpy.savez.")


def _read_parquet(path):
    try:
        table = read_columns(path, ("labels", *COLUMNS, "embeddings"))
        columns = {
            name: np.array(values_of(column), object) if is_of_texts(column) else column.to_numpy()
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name != "embeddings"
        }
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error
    for name in columns:
        if table[name].null_count:
            raise ValueError(f"{path}: {table[name].null_count} of {len(table)} values in {name} are missing.")
    if "embeddings" in table.column_names:
        columns["embeddings"] = _embeddings_of(path, table["embeddings"].combine_chunks())
    return columns


def _embeddings_of(path, lists):
    """Returns the array `[N, d]` for a column of lists of numbers."""
    from pyarrow import types

    if not any(is_kind(lists.type) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        raise ValueError(f"{path}: embeddings must be lists of numbers. Received: type {lists.type}.")
    if lists.null_count:
        raise ValueError(f"{path}: {lists.null_count} of {len(lists)} embeddings are missing.")
    lengths = np.unique(lists.value_lengths().to_numpy(zero_copy_only=False))
    if not len(lists):
        raise ValueError(f"{path} has no embeddings.")
    if len(lengths) > 1:
        raise ValueError(f"{path}: all embeddings must have the same length. Received: lengths {lengths.tolist()[:4]}.")
    return lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)


def _read_folder(path):
    shards, numbers, unlabeled = EmbeddingShards(path), {}, 0
    labels = np.zeros(len(shards), np.int64)
    with tempfile.TemporaryFile() as file:
        first = 0
        for block in shards.blocks():
            with _naming(path):
                file.write(np.ascontiguousarray(block.embeddings))
            labels[first : first + len(block.ids)] = [numbers.setdefault(label, len(numbers)) for label in block.labels]
            unlabeled += block.labels.count(None)
            first += len(block.ids)
        if unlabeled:
            raise ValueError(f"{path}: {unlabeled:,} of {first:,} images have no label. Embed the images with labels.")
        with _naming(path):
            file.flush()
        shape = (first, shards.dimension)
        # The temporary file stays on the disk as long as the array exists.
        embeddings = np.memmap(file, np.float32, "r", shape=shape) if first else np.zeros(shape, np.float32)
    names = sorted(numbers)
    places = {numbers[name]: place for place, name in enumerate(names)}
    sorted_places = np.array([places[number] for number in range(len(names))], np.int64)
    return {"embeddings": embeddings, "labels": sorted_places[labels], "class_names": dict(enumerate(names))}


@contextlib.contextmanager
def _naming(path):
    """Adds to an OSError that a copy of embeddings did not fit, and where."""
    try:
        yield
    except OSError as error:
        where = tempfile.gettempdir()
        raise OSError(
            f"Cannot copy {path} to {where}: {error.strerror}. Make room on the disk, or set TMPDIR."
        ) from error
