"""Rows of an index without their vectors: labels, paths, ids and attributes."""

import collections
import dataclasses
import functools
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from pipelines.datasets.loading import check_names
from tfdml.serving.index.attributes import OWN, kind_of, table_of_rows
from tfdml.serving.index.filters import filter_of, tokens_of


def new_ids(ids):
    """Returns ids as int64 `[N]`. Raises a ValueError unless they are distinct integers of at least 0."""
    found = np.asarray(ids)
    if found.ndim != 1 or found.dtype.kind not in "iu" or (len(found) and found.min() < 0):
        raise ValueError(f"ids must be integers of at least 0. Received: {ids!r:.100}.")
    found = found.astype(np.int64)
    check_once(found.tolist(), "id")
    return found


def new_rows(count, files, *, labels, attributes, paths, ids):
    """Returns the ids, or `None`, and the `pyarrow.Table` of N new images, from the arguments of `Index.add`.

    `files` is the `ImageList` of the images, which provides missing paths and labels. If it is `None`, the images are
    not files.
    """
    if paths is not None:
        paths = [_name(path) for path in _checked(paths, count, "paths")]
    elif files is not None and files.contents is None:
        paths = files.paths
    if paths is not None:
        check_names(paths)
        check_once(paths, "path")
    if labels is None:
        labels = [None] * count if files is None else files.labels
    labels = [None if each is None else str(each) for each in _checked(labels, count, "labels")]
    ids = None if ids is None else new_ids(_checked(ids, count, "ids"))
    attributes = {} if attributes is None else attributes
    columns = {name: _checked(attributes[name], count, f"attributes[{name!r}]") for name in attributes}
    return ids, table_of_rows(paths or [None] * count, labels, columns)


def _checked(values, count, name):
    """Returns values as a list. Raises a ValueError unless there is one value per image."""
    if isinstance(values, np.ndarray):
        # `tolist` would turn nanoseconds into integers.
        values = (values.astype("datetime64[us]") if values.dtype.kind == "M" else values).tolist()
    found = list(values)
    if len(found) != count:
        raise ValueError(f"{name} must have one value for each of {count:,} images. Received: {len(found):,} values.")
    return found


def _name(path):
    """Returns a path as an absolute path. A name that is not a path is returned as it is."""
    text = os.fspath(path) if isinstance(path, str | Path) else str(path)
    return os.path.abspath(text) if os.sep in text else text


def check_once(values, what):
    for value, count in collections.Counter(values).items():
        if count > 1:
            raise ValueError(f"Every {what} must be unique. Received: {value} {count} times.")


# Maximum size of the text in a column, in bytes, when it is compared.
MOST = 2**32


@dataclasses.dataclass(frozen=True)
class IndexRows:
    """Rows of an index in order, including deleted rows until the index is compacted.

    Args:
        ids: `[N]` int64.
        paths: List of N strings.
        labels: List of N strings, with `None` for rows without a label.
        table: `pyarrow.Table` with `id`, `path`, `label` and attributes.
        deleted: `[N]` booleans.
    """

    ids: np.ndarray
    paths: list[str]
    labels: list[str | None]
    table: Any
    deleted: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def deleted_ids(self) -> set[int]:
        """Ids of the deleted rows, as a set."""
        return set(self.ids[self.deleted].tolist())

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """Dictionary from column names to `text`, `number`, `boolean` or `time`."""
        types = {name: self.table[name].type for name in self.table.column_names}
        # If all labels are missing, the column has the null type.
        kinds = {
            name: OWN[name] if name in OWN and pyarrow.types.is_null(type) else kind_of(name, type)
            for name, type in types.items()
        }
        wrong = next((name for name in OWN if kinds[name] != OWN[name]), None)
        if wrong:
            raise ValueError(f"the column {wrong} has the type {types[wrong]}")
        return kinds

    def selected(self, where: str | None = None, hidden: Collection[str] = ()) -> np.ndarray:
        """Returns a mask `[N]` of rows that are not deleted and match a filter, which must not use `hidden` columns."""
        if where is None:
            return ~self.deleted
        kinds = {name: kind for name, kind in self.kinds.items() if name not in hidden}
        condition = filter_of(where, kinds, self.table.schema)
        names = {token.value for token in tokens_of(where) if token.kind == "name"}
        for name in names:
            self._check_size(name)
        # The empty name cannot collide with the columns of the index.
        numbered = self.table.select(sorted(names)).append_column("", pyarrow.array(np.arange(len(self))))
        mask = np.zeros(len(self), bool)
        mask[numbered.filter(condition)[""].to_numpy()] = True
        return mask & ~self.deleted

    def _check_size(self, name):
        """Raises a ValueError if equal strings share memory, but would not fit into memory row by row."""
        size = 0
        for chunk in self.table[name].chunks:
            if pyarrow.types.is_dictionary(chunk.type):
                lengths = pyarrow.compute.binary_length(chunk.dictionary).cast(pyarrow.int64())
                size += pyarrow.compute.sum(lengths.take(chunk.indices)).as_py() or 0
        if size > MOST:
            raise ValueError(
                f"The text in the column {name} has {size:,} bytes. A filter can compare at most {MOST:,}."
            )
