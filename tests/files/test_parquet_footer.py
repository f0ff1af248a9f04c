"""What Parquet files declare is found in their footer and in the headers of their pages, whichever says more."""

import io
import struct

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tfdml.files import parquet_footer
from tfdml.files.parquet_footer import INT_32, INT_64, LIST, STRUCT, declared_size
from tfdml.files.shards import read_columns

HUGE = 2**31 - 1


def varint(value):
    return varint_of_more(value) if value > 127 else bytes([value])


def varint_of_more(value):
    return bytes([value & 127 | 128]) + varint(value >> 7)


def written(kind, value):
    """A value in Thrift's compact protocol; structs are lists of `(number, kind, value)`."""
    if kind == STRUCT:
        return b"".join(bytes([each]) + varint(2 * number) + written(each, one) for number, each, one in value) + b"\0"
    if kind == LIST:
        return bytes([0xF0 | STRUCT]) + varint(len(value)) + b"".join(written(STRUCT, each) for each in value)
    return varint(2 * value if value >= 0 else -2 * value - 1)


def page(size=8, compressed=8, values=1, kind=0, header=5, more=()):
    about = [(1, INT_32, kind), (2, INT_32, size), (3, INT_32, compressed), (header, STRUCT, [(1, INT_32, values)])]
    return written(STRUCT, [*about, *more]) + bytes(8)


def table(pages, columns=1, changed=()):
    """A file of INT64 columns, all of the same pages, whose footer declares one value of 8 bytes."""
    about = {1: (INT_32, 2), 5: (INT_64, 1), 6: (INT_64, 8), 7: (INT_64, len(pages)), 9: (INT_64, 4), **dict(changed)}
    column = [(3, STRUCT, [(number, *field) for number, field in about.items()])]
    schema = [[(5, INT_32, columns)], *[[(1, INT_32, 2)]] * columns]
    footer = written(STRUCT, [(2, LIST, schema), (4, LIST, [[(1, LIST, [column] * columns)]])])
    return io.BytesIO(b"PAR1" + pages + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_pages_are_counted_where_the_footer_says_less():
    assert declared_size(table(page())) == 8
    assert declared_size(table(page(5000) + page(300, kind=2, header=7) + page(20, kind=3, header=8))) == 5320


def test_values_of_pages_are_counted_where_all_of_them_are_equal():
    assert declared_size(table(page(values=1000))) == 8000


def test_a_page_that_would_fill_memory_is_refused():
    with pytest.raises(ValueError, match=r"it would be unpacked from \d+ bytes to 2,147,483,647, which is more than"):
        read_columns(table(page(HUGE)).getvalue())


DAMAGED = {
    "no header": table(bytes(30)),
    "cut off": table(b"\x15"),
    "size below 0": table(page(HUGE) + page(-HUGE)),
    "values below 0": table(page(values=2**28) + page(values=-(2**28))),
    "never ends": table(page(compressed=-18)),
    "size twice": table(page(HUGE, more=[(2, INT_32, 1)])),
    "size twice, by a long number": table(page(1, more=[(2 + 2**16, INT_32, HUGE)])),
    "skips a page, by a long number": table(page(compressed=8 + 2**32) + page(HUGE)),
    "the same pages twice": table(page(), columns=50),
    "column of less than nothing": table(page(HUGE), changed={7: (INT_64, -1)}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_pages_are_refused(name):
    with pytest.raises(ValueError, match=r"damaged|it has a "):
        declared_size(DAMAGED[name])


def test_a_dictionary_at_a_place_of_another_kind_is_none():
    """Arrow reads past it: the pages would not be those that it reads."""
    pages = page() + page(HUGE)
    start = {9: (INT_64, 4 + len(page())), 7: (INT_64, len(page(HUGE)))}
    assert declared_size(table(pages, changed=start | {11: (INT_32, 4)})) == HUGE
    assert declared_size(table(pages, changed=start | {11: (INT_64, 4)})) >= 8


def test_a_column_of_another_type_than_the_schema_says_has_the_width_of_the_schema():
    assert declared_size(table(page(values=1000), changed={1: (INT_32, 0)})) == 8000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_every_page_of_files_of_pyarrow_is_found(tmp_path, version, compression, monkeypatch):
    rows = 5000
    columns = {
        # Statistics of such texts make headers of pages longer than what is read of them at first.
        "label": [f"{row}" + "x" * 3000 if row < 9 else str(row % 7) for row in range(rows)],
        "embeddings": list(np.random.default_rng(0).normal(size=(rows, 16)).astype("f4")),
        "number": [None if row % 3 else row for row in range(rows)],
    }
    options = {"compression": compression, "data_page_version": version, "data_page_size": 2000}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet", row_group_size=3000, **options)
    lengths = []
    headers = parquet_footer._page_header

    def counted(file, place):
        header, length = headers(file, place)
        lengths.append((length, header[3, INT_32]))
        return header, length

    monkeypatch.setattr(parquet_footer, "_page_header", counted)
    with open(tmp_path / "x.parquet", "rb") as file:
        assert declared_size(file) >= rows * 17 * 4
    about = pyarrow.parquet.read_metadata(tmp_path / "x.parquet")
    places = [(group, column) for group in range(about.num_row_groups) for column in range(about.num_columns)]
    stored = sum(about.row_group(group).column(column).total_compressed_size for group, column in places)
    assert len(lengths) > 50 and sum(map(sum, lengths)) == stored
    assert max(lengths)[0] > parquet_footer.HEADER_BYTES[0]
    assert read_columns(tmp_path / "x.parquet").num_rows == rows


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("rows", [0, 2])
def test_columns_without_values_are_read(tmp_path, compression, dictionary, rows):
    nothing = {"label": pyarrow.array([None] * rows, pyarrow.string()), "id": pyarrow.array([None] * rows, "int64")}
    options = {"compression": compression, "use_dictionary": dictionary}
    pyarrow.parquet.write_table(pyarrow.table(nothing), tmp_path / "x.parquet", **options)
    assert read_columns(tmp_path / "x.parquet").num_rows == rows
