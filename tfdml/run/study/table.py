"""The table of a study."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table, which `tfdml.run.study.formats` writes.

    Args:
        name: its name in JSON, and in the names of CSV files.
        heads: heads of the columns, texts.
        rows: lists of cells, see `tfdml.run.study.cells`.
        caption: sentence above it.
        note: sentence below it.
    """

    name: str
    heads: list
    rows: list
    caption: str = ""
    note: str = ""
