"""Images with labels in other libraries' archives: WebDataset tar files, and Parquet files with an image column."""

import collections
import glob
import json
import os
import tarfile
import threading
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipelines.datasets.folder import ENDINGS
from pipelines.stored import StoredImages, local, read_part
from tfdml.files.checked import open_file, reason_of
from tfdml.files.parquet_footer import declared_size
from tfdml.files.shards import is_of_texts, read_columns, values_of

ARCHIVES = (".tar", ".parquet")
# Endings of tar files in which images cannot be read one at a time.
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
# Maximum number of bytes of a label's file. Records of crawled images have about two thousand.
MOST_OF_LABEL = 2**20
# Bytes of Parquet files that stay in memory, and of a group of rows, which is read as a whole and usually has 10 MB.
KEPT, MOST_OF_GROUP = 2**28, 2**31 - 1


class Members(NamedTuple):
    """Places of images in tar files: index of the file, first byte, number of bytes and name of the image."""

    shard: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    name: np.ndarray


class TarImages(StoredImages):
    """Images in uncompressed tar files, with `Members` as places. `source` are the paths of the files."""

    def record(self, shard, offset, length, name):
        path = self.source[shard]
        try:
            content = read_part(path, offset, length)
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror or error}).") from error
        if len(content) != length:
            raise ValueError(f"{path} is truncated, so {name} cannot be read. Copy the file again.")
        return content

    def fingerprints(self):
        return _fingerprints(self.source, self.places.shard, self.places.name)

    def modified(self):
        return _modified(self.source, self.places.shard)

    def name_of(self, row):
        return f"{self.source[self.places.shard[row]]}: {self.places.name[row]}"


class ParquetRows(NamedTuple):
    """Places of images in Parquet files: index of the file, group of rows, row in the group, and row in the file."""

    shard: np.ndarray
    group: np.ndarray
    row: np.ndarray
    number: np.ndarray


class ParquetImages(StoredImages):
    """Images in a column of Parquet files, with `ParquetRows` as places. `source` are their `RowGroups`."""

    def read(self, rows):
        # In the order of the files, each group of rows is decompressed only once.
        order = np.lexsort([self.places.number[rows], self.places.shard[rows]])
        found = np.empty(len(rows), object)
        found[order] = super().read(np.asarray(rows)[order])
        return found

    def record(self, shard, group, row, number):
        content = self.source.column(shard, group)[row].as_py()
        if content is None:
            raise ValueError(f"{self.source.paths[shard]}, row {number}, has no image. Remove the row.")
        return content

    def fingerprints(self):
        return _fingerprints(self.source.paths, self.places.shard, self.places.number)

    def modified(self):
        return _modified(self.source.paths, self.places.shard)

    def name_of(self, row):
        return f"{self.source.paths[self.places.shard[row]]}, row {self.places.number[row]}"


class RowGroups:
    """The image column of Parquet files, by group of rows. The groups that were used last stay in memory."""

    def __init__(self, paths, name):
        self.paths, self.name = paths, name
        self._kept, self._lock = collections.OrderedDict(), threading.Lock()

    def column(self, shard, group):
        """Returns the contents of the image files in a group of rows, a `pyarrow` array."""
        with self._lock:
            if (shard, group) not in self._kept:
                self._kept[shard, group] = self._read(shard, group)
                while sum(each.nbytes for each in self._kept.values()) > KEPT and len(self._kept) > 1:
                    self._kept.popitem(last=False)
            self._kept.move_to_end((shard, group))
            return self._kept[shard, group]

    def _read(self, shard, group):
        import pyarrow
        import pyarrow.parquet

        path = self.paths[shard]
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                column = file.read_row_group(group, [self.name]).column(0).combine_chunks()
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read ({reason_of(error)}).") from error
        return column.field("bytes") if pyarrow.types.is_struct(column.type) else column


def _fingerprints(paths, shards, names):
    """Returns `[N, 2]` integers: one of the row's file, by its name and size, and one of the row in the file."""
    files = [zlib.crc32(f"{os.path.basename(path)} {os.path.getsize(path)}".encode()) for path in paths]
    rows = [zlib.crc32(str(name).encode(errors="surrogateescape")) for name in names.tolist()]
    return np.stack([np.array(files)[shards], np.array(rows, np.int64)], axis=1)


def _modified(paths, shards):
    return [os.stat(paths[shard]).st_mtime_ns for shard in np.unique(shards).tolist()]


def is_archive(source):
    """Returns whether a path or a pattern means tar files, or Parquet files that do not list paths of images."""
    is_table = str(source).endswith(".parquet") and os.path.isfile(source) and "path" in _schema(source).names
    return str(source).endswith(ARCHIVES + COMPRESSED) and not is_table


def files_of(source):
    """Returns the sorted archives that a path, a folder or a pattern such as `data/train-*.parquet` means."""
    source = os.path.expanduser(local(source, "The archive "))
    pattern = f"{glob.escape(source)}/*" if os.path.isdir(source) else source
    found = [source] if os.path.isfile(source) else glob.glob(pattern, recursive=True)
    found = sorted(os.path.abspath(path) for path in found if path.endswith(ARCHIVES))
    if not found and source.endswith(COMPRESSED):
        raise ValueError(f"{source} is compressed. Expected .tar files. Decompress it, for example with gunzip.")
    if not found:
        raise FileNotFoundError(
            f"{source} does not exist or contains no archives. Expected the path of a {' or '.join(ARCHIVES)} file, a "
            "folder with such files, or a pattern such as train-*.tar."
        )
    return found


def read_archives(source):
    """Returns the images of tar or Parquet files, a unique name for each, and their labels, or None without a label."""
    paths = files_of(source)
    images, labels = (read_parquet if paths[0].endswith(".parquet") else read_tar)(paths, required=False)
    shards, stems = images.places.shard, [f"{Path(path).stem}-{zlib.crc32(os.fsencode(path)):08x}" for path in paths]
    numbers = np.arange(len(shards)) - np.searchsorted(shards, shards)
    return images, [f"{stems[shard]}-{number:07d}" for shard, number in zip(shards, numbers, strict=True)], labels


def read_tar(paths, label="cls", required=True):
    """Returns the `TarImages` and the labels of WebDataset tar files: texts, or None without a label.

    The members of a sample have the same name up to the first dot. `label` is the extension of the member with the
    label, or `json.NAME` for a value in the sample's JSON. A missing label is an error if `required`.
    """
    rows, labels = [], []
    for shard, path in enumerate(paths):
        for members in _samples(path):
            name = next((each for each in members if os.path.splitext(each)[1].lower() in ENDINGS), None)
            if name is not None:
                rows.append((shard, *members[name], name))
                labels.append(_tar_label(path, members, label))
                if required and not labels[-1]:
                    raise ValueError(
                        f"{path}: the sample with {name} has no label {label!r}. Received: {', '.join(members)}. Set "
                        "label to the extension of the label's file, such as 'txt', or to a value in its JSON, such as "
                        "'json.brand'."
                    )
    if not rows:
        raise ValueError(f"{paths[0]} contains no images. Expected names that end in {', '.join(ENDINGS)}.")
    return TarImages(paths, Members(*map(np.array, zip(*rows, strict=True), (np.int32, int, int, object)))), labels


def _samples(path):
    """Returns the samples of a tar file: for each, the first byte and the length of its members by name."""
    samples = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                # macOS adds a file with metadata for each file, such as ._7.jpg for 7.jpg.
                if member.isfile() and not name.startswith("."):
                    members = samples.setdefault((folder, name.partition(".")[0]), {})
                    members[member.name] = member.offset_data, member.size
                # Otherwise, the headers of all members stay in memory.
                tar.members = []
            if read_part(path, tar.offset, tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                # The module tarfile accepts a file that ends between two members.
                raise tarfile.ReadError("unexpected end of data")
    except (tarfile.TarError, OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an uncompressed tar file ({error}). Unpack or copy it.") from None
    return samples.values()


def _tar_label(path, members, label):
    ending, _, field = label.partition(".")
    place = next((place for name, place in members.items() if name.endswith(f".{ending}")), (0, 0))
    if not 0 < place[1] <= MOST_OF_LABEL:
        return None
    found = read_part(path, *place).decode(errors="replace").strip()
    try:
        found = json.loads(found) if field else found
        for part in filter(None, field.split(".")):
            found = found.get(part)
    except (ValueError, AttributeError, RecursionError):
        return None
    return None if found in (None, "") else str(found)


def read_parquet(paths, image=None, label="label", required=True):
    """Returns the `ParquetImages` and the labels of Parquet files: texts, or None without a label.

    `image` is the name of the column with the contents of image files, or None for the only such column. It contains
    bytes, or structs with the field `bytes`, as the library datasets writes them; then integer labels have the names
    that it stores. A missing label is an error if `required`.
    """
    schemas, rows, labels = [_schema(path) for path in paths], [], []
    wanted = image
    for shard, (path, schema) in enumerate(zip(paths, schemas, strict=True)):
        candidates = [field.name for field in schema if _holds_images(field.type)]
        image = candidates[0] if image is None and len(candidates) == 1 else image
        if candidates.count(image) != 1:
            raise ValueError(
                f"{path} must have {'one column' if wanted is None else f'the column {wanted!r}'} with the contents of "
                "image files: bytes, or structs with the field bytes. Received: "
                f"{', '.join(f'{field.name} ({field.type})' for field in schema)}."
                + (f" Use parquet(path=..., image={candidates[0]!r})." if candidates else "")
            )
        sizes = _group_sizes(path, image)
        labels += _parquet_labels(path, schema, label, required)
        group, number = np.repeat(np.arange(len(sizes)), sizes), np.arange(sum(sizes))
        rows.append([np.full(len(group), shard), group, number - np.cumsum([0, *sizes])[group], number])
    if not sum(len(each[0]) for each in rows):
        raise ValueError(f"{paths[0]} contains no images. Expected at least one row.")
    places = ParquetRows(*np.concatenate(rows, axis=1).astype(np.int32))
    return ParquetImages(RowGroups(paths, image), places), labels


def _schema(path):
    import pyarrow
    import pyarrow.parquet

    try:
        with open_file(path) as file:
            # On some damaged files, pyarrow would end the process.
            declared_size(file)
            return pyarrow.parquet.read_schema(file)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}.") from None


def _holds_images(kind):
    import pyarrow

    if pyarrow.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and _holds_images(kind.field("bytes").type)
    return pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)


def _group_sizes(path, image):
    """Returns the number of rows in each group of rows. Groups that are too large for memory are an error."""
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for group in groups:
        chunks = map(group.column, range(group.num_columns))
        size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] == image)
        if size > MOST_OF_GROUP:
            raise ValueError(
                f"{path} has {size:,} bytes of images in one group of rows, which are read together. Expected at most "
                f"{MOST_OF_GROUP:,}. Write the file again with smaller groups, such as row_group_size=100."
            )
    return [group.num_rows for group in groups]


def _parquet_labels(path, schema, name, required):
    """Returns the label of each row as text, or None."""
    try:
        table = read_columns(path, (name,))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}.") from None
    if name not in table.column_names:
        if not required:
            return [None] * table.num_rows
        raise ValueError(
            f"{path} has no column {name!r}. Received: {', '.join(schema.names)}. Set label to one of them."
        )
    values, names = values_of(table[name]), None if is_of_texts(table[name]) else _class_names(schema, name)
    if names:
        # The library marks an unknown label by -1.
        values = [names[value] if isinstance(value, int) and 0 <= value < len(names) else None for value in values]
    for row, value in enumerate(values):
        if not isinstance(value, int | str) and (required or value is not None):
            raise ValueError(
                f"{path}, row {row}: {name} must be a text or an integer. Received: {str(value)[:50]}. Remove the row, "
                "or set label to another column."
            )
    return [None if value is None else str(value) for value in values]


def _class_names(schema, name):
    """Returns the names of integer labels that the library datasets stores in the schema, or None."""
    try:
        return json.loads(schema.metadata[b"huggingface"])["info"]["features"][name]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
