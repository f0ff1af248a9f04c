"""Checks what a Parquet file declares without pyarrow, which ends the process on some inconsistent files."""

import io
import struct

MAGIC, MOST_DEPTH = b"PAR1", 32
# Bytes per value by type: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE and, for a string, its index.
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 4}
# Kinds of values in Thrift's compact protocol. Readers treat a field with another kind as another field.
INT_32, INT_64, LIST, STRUCT = 5, 6, 9, 12
# Field numbers and kinds in the format's definition.
SCHEMA, ROW_GROUPS = (2, LIST), (4, LIST)
LEAF_TYPE, TYPE_LENGTH, CHILDREN = (1, INT_32), (2, INT_32), (5, INT_32)
COLUMNS, COLUMN_METADATA = (1, LIST), (3, STRUCT)
NUM_VALUES, UNCOMPRESSED_SIZE, COMPRESSED_SIZE = (5, INT_64), (6, INT_64), (7, INT_64)
DATA_OFFSET, DICTIONARY_OFFSET = (9, INT_64), (11, INT_64)
PAGE_UNCOMPRESSED, PAGE_COMPRESSED, PAGE_VALUES = (2, INT_32), (3, INT_32), (1, INT_32)
# Headers of data pages, dictionary pages, and data pages in version 2.
PAGE_KINDS = (5, STRUCT), (7, STRUCT), (8, STRUCT)
# Maximum number of pages per column. A page usually has a megabyte, and reading this many headers takes seconds.
MOST_PAGES = 200_000
# Bytes to read for a page header, which usually has 30. Arrow does not read headers longer than the last value.
HEADER_BYTES = (2**10, 2**14, 2**19, 2**24)
DAMAGED = (KeyError, IndexError, TypeError, AttributeError, struct.error)


def declared_size(file):
    """Returns the memory that a file needs, in bytes, by its footer and pages. A ValueError means it is not Parquet."""
    try:
        content, stored = _footer(file)
        return _size(file, _Reader(content).struct(), stored)
    except DAMAGED:
        raise ValueError("its footer is damaged, or it is not a Parquet file") from None


def _footer(file):
    """Returns the footer's bytes, and how many bytes come before it."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(end - 8, 0))
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != MAGIC or length > end - 8:
        raise ValueError("it is not a Parquet file, or it is truncated")
    file.seek(end - 8 - length)
    return file.read(length), end - 8 - length


def _size(file, footer, stored):
    leaves = [element for element in footer[SCHEMA] if LEAF_TYPE in element and not element.get(CHILDREN)]
    size = 0
    for group in footer[ROW_GROUPS]:
        for leaf, column in zip(leaves, group[COLUMNS], strict=False):
            about = column[COLUMN_METADATA]
            width = WIDTHS.get(leaf[LEAF_TYPE]) or leaf[TYPE_LENGTH]
            # Otherwise, several columns could claim the same pages, which would be counted for each of them.
            stored -= about[COMPRESSED_SIZE]
            if stored < 0 or about[COMPRESSED_SIZE] < 0:
                raise ValueError("its footer is damaged: the columns are longer than the file")
            size += max(about[UNCOMPRESSED_SIZE], about[NUM_VALUES] * width, _size_of_pages(file, about, width))
    return size


def _size_of_pages(file, about, width):
    """Returns the memory that the pages of a column need, independent of the footer."""
    offsets = about[DATA_OFFSET], about.get(DICTIONARY_OFFSET, 0)
    # A column without values has a dictionary but no data pages, and their offset is 0.
    place, size = min((offset for offset in offsets if offset > 0), default=0), 0
    end = place + about[COMPRESSED_SIZE]
    for _ in range(MOST_PAGES):
        if place >= end:
            return size
        header, length = _page_header(file, place)
        values = sum(header[kind][PAGE_VALUES] for kind in PAGE_KINDS if kind in header)
        if min(header[PAGE_UNCOMPRESSED], header[PAGE_COMPRESSED], values) < 0:
            raise ValueError("one of its pages is damaged")
        size += max(header[PAGE_UNCOMPRESSED], values * width)
        place += length + header[PAGE_COMPRESSED]
    raise ValueError(f"one of its columns has more than {MOST_PAGES:,} pages")


def _page_header(file, place):
    """Returns the page header at an offset of a file, and the length of the header."""
    for count in HEADER_BYTES:
        file.seek(place)
        reader = _Reader(file.read(count))
        try:
            return reader.struct(), reader.place
        except (*DAMAGED, ValueError):
            # The header is longer than this, or damaged.
            continue
    raise ValueError("one of its pages is damaged")


class _Reader:
    """Reads Thrift's compact protocol. Structs become dictionaries from `(number, kind)` of a field to its value."""

    def __init__(self, content):
        self._content, self.place, self._depth = content, 0, 0
        self._kinds = {
            **dict.fromkeys((1, 2), lambda: None),
            3: self._byte,
            **{kind: lambda bits=bits: self._integer(bits) for kind, bits in ((4, 16), (5, 32), (6, 64))},
            7: lambda: self._skip(8),
            8: lambda: self._skip(self._varint()),
            **dict.fromkeys((9, 10), self._list),
            11: self._map,
            12: self.struct,
        }

    def struct(self):
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ValueError("its footer is nested too deeply")
        found, number = {}, 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer(16)
            field = number, head & 15
            # Other readers would use the later field, or keep only 16 bits of its number.
            if field in found or number >= 2**15:
                raise ValueError("it contains a field twice")
            found[field] = self._kinds[head & 15]()
        self._depth -= 1
        return found

    def _list(self):
        head = self._byte()
        count, kind = head >> 4, head & 15
        return self._values(self._varint() if count == 15 else count, [kind])

    def _map(self):
        count = self._varint()
        kinds = self._byte() if count else 0
        return self._values(count, [kinds >> 4, kinds & 15])

    def _values(self, count, kinds):
        # Each value needs at least one byte.
        if count > len(self._content) - self.place:
            raise ValueError("its footer is damaged")
        # In a list, a boolean is a byte.
        read = [self._byte if kind in (1, 2) else self._kinds[kind] for kind in kinds]
        return [[each() for each in read][-1] for _ in range(count)]

    def _byte(self):
        self.place += 1
        return self._content[self.place - 1]

    def _skip(self, count):
        self.place += count

    def _varint(self):
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _integer(self, bits):
        value = self._varint()
        # Other readers would only use the lowest bits.
        if value >> bits:
            raise ValueError("it contains a number that is too large")
        return value >> 1 ^ -(value & 1)
