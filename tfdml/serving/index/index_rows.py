"""`IndexRows`: what is known of the rows of an index beside their vectors."""

import dataclasses
import functools
from collections.abc import Collection
from typing import Any

import numpy as np

from tfdml.serving.index.attributes import OWN, kind_of
from tfdml.serving.index.filters import filter_of


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

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """Name of a column to `text`, `number`, `boolean` or `time`."""
        # Labels may be missing in all rows, and then have no type.
        return {name: OWN.get(name) or kind_of(name, self.table[name].type) for name in self.table.column_names}

    def selected(self, where: str | None = None, hidden: Collection[str] = ()) -> np.ndarray:
        """Returns a mask `[N]` of the rows that are there and that a filter takes.

        Args:
            where: the filter; None: all rows.
            hidden: names of columns that it must not ask for.
        """
        if where is None:
            return ~self.deleted
        kinds = {name: kind for name, kind in self.kinds.items() if name not in hidden}
        condition = filter_of(where, kinds)
        import pyarrow

        # Beside the columns of the index, whatever their names are: a tuple of rows has no name.
        numbered = self.table.append_column("", pyarrow.array(np.arange(len(self))))
        mask = np.zeros(len(self), bool)
        mask[numbered.filter(condition)[""].to_numpy()] = True
        return mask & ~self.deleted
