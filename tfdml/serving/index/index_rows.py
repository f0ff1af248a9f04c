"""`IndexRows`: what is known of the rows of an index beside their vectors."""

import dataclasses
import functools
from collections.abc import Collection
from typing import Any

import numpy as np

from tfdml.serving.index.attributes import OWN, kind_of
from tfdml.serving.index.filter_tokens import tokens_of
from tfdml.serving.index.filters import filter_of

# Bytes of the texts of a column.
MOST = 2**32


@dataclasses.dataclass(frozen=True)
class IndexRows:
    """Rows of an index, in its order. Those that are deleted are there until the index is compacted.

    Args:
        ids: `[N]` int64.
        paths: list of texts.
        labels: list of texts, or None where a row has none.
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
        """The ids of the rows that are deleted."""
        return set(self.ids[self.deleted].tolist())

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """Name of a column to `text`, `number`, `boolean` or `time`."""
        import pyarrow

        types = {name: self.table[name].type for name in self.table.column_names}
        # Labels may be missing in all rows, and then have no type.
        kinds = {
            name: OWN[name] if name in OWN and pyarrow.types.is_null(type) else kind_of(name, type)
            for name, type in types.items()
        }
        wrong = next((name for name in OWN if kinds[name] != OWN[name]), None)
        if wrong:
            raise ValueError(f"its column {wrong} has the type {types[wrong]}")
        return kinds

    def selected(self, where: str | None = None, hidden: Collection[str] = ()) -> np.ndarray:
        """Returns a mask `[N]` of the rows that are there and that a filter takes.

        Args:
            where: the filter; None: all rows.
            hidden: names of columns that it must not ask for.
        """
        if where is None:
            return ~self.deleted
        kinds = {name: kind for name, kind in self.kinds.items() if name not in hidden}
        condition = filter_of(where, kinds, self.table.schema)
        names = {token.value for token in tokens_of(where) if token.kind == "name"}
        import pyarrow

        for name in names:
            self._check_size(name)
        # Beside the columns of the index, whatever their names are.
        numbered = self.table.select(sorted(names)).append_column("", pyarrow.array(np.arange(len(self))))
        mask = np.zeros(len(self), bool)
        mask[numbered.filter(condition)[""].to_numpy()] = True
        return mask & ~self.deleted

    def _check_size(self, name):
        """Raises a ValueError if a column's texts are in memory once, and would not be while they are compared."""
        import pyarrow
        import pyarrow.compute

        size = 0
        for chunk in self.table[name].chunks:
            if pyarrow.types.is_dictionary(chunk.type):
                lengths = pyarrow.compute.binary_length(chunk.dictionary).cast(pyarrow.int64())
                size += pyarrow.compute.sum(lengths.take(chunk.indices)).as_py() or 0
        if size > MOST:
            raise ValueError(f"The texts of the column {name} have {size:,} bytes; a filter compares at most {MOST:,}.")
