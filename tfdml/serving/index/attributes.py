"""Attributes of images: columns of text, numbers, booleans and times, which filters can use."""

import logging
import operator
import os

import numpy as np
import pyarrow
import pyarrow.compute
from pyarrow import types

from pipelines.boxes import COLUMNS, box_of_row, parted, with_box
from pipelines.labels import read_table
from tfdml.files.checked import reason_of
from tfdml.files.shards import read_columns, values_of

# Columns that every index has.
OWN = {"id": "number", "path": "text", "label": "text"}
EXPECTED = "Expected text, numbers, booleans or times"
# A time that ends with an offset from UTC: Z, +02, +0200 or +02:00.
OFFSET = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def kind_of(name, type):
    """Returns `text`, `number`, `boolean` or `time` for a pyarrow type. Raises a ValueError for any other type."""
    if types.is_dictionary(type):
        type = type.value_type
    if types.is_string(type) or types.is_large_string(type):
        return "text"
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return "number"
    if types.is_boolean(type):
        return "boolean"
    if types.is_timestamp(type) or types.is_date(type):
        return "time"
    raise ValueError(f"The attribute column {name} has the type {type}. {EXPECTED}.")


def attributes_of(columns, paths):
    """Returns a `pyarrow.Table` of attributes that are passed in Python, with a column `path`.

    `columns` maps names to one value per path, with `None` for missing values.
    """
    arrays = {"path": pyarrow.array(paths, pyarrow.string())}
    for name in columns:
        try:
            arrays[name] = pyarrow.array(columns[name], from_pandas=True)
        except (pyarrow.ArrowException, TypeError) as error:
            raise ValueError(f"The attribute column {name} cannot be used ({error}). {EXPECTED}.") from None
    return _checked(arrays)


def table_of_rows(paths, labels, attributes):
    """Returns the `pyarrow.Table` of rows passed in Python: `path`, `label` and the columns of `attributes_of`.

    A path is `None` if the row is to be named after its id, and a label is `None` if the row has none.
    """
    table = attributes_of(attributes or {}, paths)
    return table.add_column(1, "label", pyarrow.array(labels, pyarrow.string()))


def named(table, ids):
    """Fills in missing paths in a table of `table_of_rows`, for example `#7` for the id 7."""
    names = pyarrow.array([f"#{id}" for id in ids.tolist()], pyarrow.string())
    paths = pyarrow.compute.coalesce(table["path"], names)
    return table.set_column(table.column_names.index("path"), "path", paths)


def read_attributes(file, paths, has_labels=False):
    """Reads the attributes of images from a file into a `pyarrow.Table` with a column `path` and one row per image.

    The CSV or Parquet file has a column `path`, relative to the working directory, and other columns. Rows of images
    that are not among `paths` are ignored. A column `label` is ignored as well, with a warning unless the file
    `has_labels` that the images already have.
    """
    if not str(file).endswith((".csv", ".parquet")):
        raise ValueError(f"--attributes={file} is not a table. Expected a .csv or .parquet file.")
    table = (_of_csv if str(file).endswith(".csv") else _of_parquet)(file)
    if "path" not in table.column_names:
        raise ValueError(f"{file} has the columns {table.column_names}. Expected path and other columns.")
    try:
        if kind_of("path", table["path"].type) != "text":
            raise ValueError(f"the column path has the type {table['path'].type} instead of text")
        places = _places(_names_in(table), set(paths))
        # The row of a photo is also for each box in it.
        places = {path: places.get(path, places.get(parted(path)[0])) for path in paths}
        missing = [path for path, place in places.items() if place is None]
        if missing:
            raise ValueError(f"it has no row for {len(missing):,} of {len(paths):,} images, for example {missing[0]}")
        table = table.take([places[path] for path in paths])
        columns = {name: table[name] for name in table.column_names if name != "label"}
        found = _checked(columns | {"path": pyarrow.array(paths, pyarrow.string())})
    except (pyarrow.ArrowException, ValueError) as error:
        raise ValueError(f"{file} cannot be used: {reason_of(error).rstrip('.')}.") from None
    warn = logging.getLogger(__name__).warning
    if "label" in table.column_names and not has_labels:
        warn("The column label of %s is ignored, because labels come from the images or the embeddings.", file)
    empty = [name for name in found.column_names if found[name].null_count == len(found)]
    if empty:
        warn("%s has no values for these images in the columns %s, which are not added.", file, ", ".join(empty))
    return found.drop_columns(empty)


def _names_in(table):
    """Returns the paths of a table, with boxes if it has columns for them."""
    paths = values_of(table["path"])
    if not set(COLUMNS) <= set(table.column_names):
        return paths
    boxes = [box_of_row(row, f"row {place}") for place, row in enumerate(table.select(COLUMNS).to_pylist())]
    return [with_box(os.path.abspath(path or ""), box) for path, box in zip(paths, boxes, strict=True)]


def _places(found, wanted):
    """Returns a dictionary from paths to rows of a table. Paths that are not among `wanted` become absolute."""
    places = {}
    for place, path in enumerate(found):
        name = path if path in wanted else os.path.abspath(path or "")
        if name in places:
            raise ValueError(f"it has several rows for {path}, but may have only one per image")
        places[name] = place
    return places


def joined(rows, ids, paths, new):
    """Merges the index's attributes, found by id, with new ones, found by path. Returns the columns by name.

    `rows` are the `IndexRows` of the index, and `new` is a table with a column `path`, or `None`.
    """
    found, old = {}, {}
    if rows is not None:
        old = dict(zip(rows.ids.tolist(), range(len(rows)), strict=True))
        found = _taken(rows.table, [old.get(id) for id in ids], OWN)
    if new is None:
        return found
    places = dict(zip(new["path"].to_pylist(), range(len(new)), strict=True))
    # The row of a photo is also for each box in it that is new. Earlier boxes keep their own attributes.
    names = [path if id in old else parted(path)[0] for id, path in zip(ids, paths, strict=True)]
    chosen = [places.get(path, places.get(name)) for path, name in zip(paths, names, strict=True)]
    replaced = np.array([place is not None for place in chosen])
    for name, column in _taken(new, chosen, ("path",)).items():
        found[name] = _merged(name, found.get(name), column, replaced)
    return found


def _merged(name, old, new, replaced):
    if old is None or old.null_count == len(old):
        return new
    if new.null_count == len(new):
        new = pyarrow.nulls(len(new), old.type)
    kinds = [kind_of(name, column.type) for column in (old, new)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"The column {name} of the index is a {kinds[0]} column. Received: a {kinds[1]} column.")
    if old.type != new.type:
        common = pyarrow.string() if kinds[0] == "text" else pyarrow.float64()
        old, new = old.cast(common), new.cast(common)
    return pyarrow.compute.if_else(pyarrow.array(replaced), new, old)


def _taken(table, places, without):
    places = pyarrow.array(places, pyarrow.int64())
    return {name: table[name].take(places).combine_chunks() for name in table.column_names if name not in without}


def _checked(columns):
    """Returns a table in which every column has the standard type of its kind."""
    for name in columns:
        if not isinstance(name, str) or not name or name in OWN.keys() - {"path"}:
            raise ValueError(
                f"An attribute cannot have the name {name!r}. Expected a non-empty string other than {', '.join(OWN)}."
            )
    return pyarrow.table({name: _of_one_type(name, column) for name, column in columns.items()})


def _of_one_type(name, column):
    if types.is_null(column.type):
        return column.cast(pyarrow.string())
    kind = kind_of(name, column.type)
    if types.is_dictionary(column.type):
        return pyarrow.array(values_of(column), pyarrow.string())
    if kind == "number":
        if types.is_integer(column.type):
            return column.cast(pyarrow.int64())
        floats = column.cast(pyarrow.float64())
        # Treat NaN as missing, because comparisons with a missing value are neither true nor false.
        missing = pyarrow.scalar(None, pyarrow.float64())
        return pyarrow.compute.if_else(pyarrow.compute.is_nan(floats), missing, floats)
    if kind == "time":
        # Nanoseconds are truncated to microseconds.
        options = pyarrow.compute.CastOptions(pyarrow.timestamp("us"), allow_time_truncate=True)
        return pyarrow.compute.cast(column, options=options)
    return column.cast(pyarrow.string() if kind == "text" else pyarrow.bool_())


def _of_parquet(file):
    try:
        return read_columns(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}.") from error


def _of_csv(file):
    def check(header):
        if len(set(header)) < len(header):
            raise ValueError(f"{file} has the columns {header}. Expected each column once.")

    header, rows = read_table(file, check)
    columns = {name: pyarrow.array([row[name] or None for row, _ in rows], pyarrow.string()) for name in header}
    return pyarrow.table({name: texts if name == "path" else _typed(texts) for name, texts in columns.items()})


def _typed(texts):
    """Converts a text column to numbers, booleans or times if all of its values allow it."""
    casts = [operator.methodcaller("cast", type) for type in (pyarrow.int64(), pyarrow.float64(), pyarrow.bool_())]
    for convert in (*casts, _times):
        try:
            return convert(texts)
        except pyarrow.ArrowInvalid:
            continue
    return texts


def _times(texts):
    """Converts text to times in UTC. Times without an offset are in UTC. Raises an ArrowInvalid for other text."""
    # pyarrow cannot read a column that has times with and without an offset, so parse them separately.
    with_offset, nothing = pyarrow.compute.match_substring_regex(texts, OFFSET), pyarrow.scalar(None, pyarrow.string())
    naive = pyarrow.compute.if_else(with_offset, nothing, texts).cast(pyarrow.timestamp("us"))
    others = pyarrow.compute.if_else(with_offset, texts, nothing).cast(pyarrow.timestamp("us", "UTC"))
    return pyarrow.compute.coalesce(naive, others.cast(pyarrow.timestamp("us")))
