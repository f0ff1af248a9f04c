"""Reads Parquet files of strangers: a few hundred bytes can stand for gigabytes of equal values."""

import io

from tfdml.files.archive_sizes import check_growth
from tfdml.files.checked_files import open_file, reason_of
from tfdml.files.parquet_footer import declared_size

# Bytes of a text, such as a path or a label.
MOST_TEXT = 2**16
# The type that texts have.
TEXT = "BYTE_ARRAY"


def read_columns(source, columns=None, check=lambda names: None):
    """Returns the `pyarrow.Table` of a file, in which equal texts are there once; a ValueError if it cannot be read.

    Args:
        source: path of the file, or its content, bytes.
        columns: names of columns; those that the file does not have are left out. None: all.
        check: function that is called with the names of all columns of the file before they are read, and may raise.
    """
    # Imported here because it is slow to load.
    import pyarrow
    import pyarrow.parquet

    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source) as file:
        try:
            check_growth(declared_size(file), file.seek(0, io.SEEK_END))
            found = pyarrow.parquet.ParquetFile(file)
            leaves = [found.metadata.schema.column(place) for place in range(found.metadata.num_columns)]
            texts = [leaf.path for leaf in leaves if leaf.physical_type == TEXT]
            found = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
            names = found.schema_arrow.names
            check(names)
            wanted = [name for name in columns or names if name in names]
            twice = [name for name in wanted if names.count(name) > 1]
            if twice:
                raise ValueError(f"it has the column {twice[0]!r} {names.count(twice[0])} times")
            return found.read(wanted)
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            raise ValueError(reason_of(error)) from None


def is_of_texts(column):
    """Whether a column of a table holds texts."""
    import pyarrow

    return pyarrow.types.is_dictionary(column.type) and pyarrow.types.is_string(column.type.value_type)


def values_of(column):
    """Returns the values of a column of a table, a list, with None where one is missing; equal texts are one object."""
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        return column.to_pylist()
    found = []
    for chunk in column.chunks:
        longest = pyarrow.compute.max(pyarrow.compute.binary_length(chunk.dictionary)).as_py() or 0
        if longest > MOST_TEXT:
            raise ValueError(f"a text has {longest:,} bytes, and may have {MOST_TEXT:,}")
        # That every text is there, and is UTF-8.
        chunk.validate(full=True)
        known = chunk.dictionary.to_pylist()
        found += [None if place is None else known[place] for place in chunk.indices.to_pylist()]
    return found
