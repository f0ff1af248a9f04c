"""What the footer of a Parquet file declares, read without pyarrow, which ends the process where it is inconsistent."""

import io
import struct

MAGIC, MOST_DEPTH = b"PAR1", 32
# Bytes of a value by its type: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, and of a text its number.
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 4}
# Numbers of fields in the format's description.
SCHEMA, ROW_GROUPS = 2, 4
TYPE_LENGTH, CHILDREN = 2, 5
COLUMNS, COLUMN_METADATA = 1, 3
TYPE, NUM_VALUES, UNCOMPRESSED_SIZE = 1, 5, 6


def declared_size(file):
    """Returns the bytes that a file takes in memory, by what its footer declares; a ValueError if it is no Parquet.

    Args:
        file: the file, opened for bytes.
    """
    try:
        return _size(_Reader(_footer(file)).struct())
    except (KeyError, IndexError, TypeError, AttributeError, struct.error):
        raise ValueError("its footer is damaged, or it is no Parquet file") from None


def _footer(file):
    end = file.seek(0, io.SEEK_END)
    file.seek(max(end - 8, 0))
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != MAGIC or length > end - 8:
        raise ValueError("it is no Parquet file, or is cut off")
    file.seek(end - 8 - length)
    return file.read(length)


def _size(footer):
    leaves = [element for element in footer[SCHEMA] if not element.get(CHILDREN)]
    size = 0
    for group in footer[ROW_GROUPS]:
        for leaf, column in zip(leaves, group[COLUMNS], strict=False):
            about = column[COLUMN_METADATA]
            width = WIDTHS.get(about[TYPE]) or leaf[TYPE_LENGTH]
            size += max(about[UNCOMPRESSED_SIZE], about[NUM_VALUES] * width)
    return size


class _Reader:
    """Reads the compact protocol of Thrift: structs as dictionaries from the number of a field to its value."""

    def __init__(self, content):
        self._content, self._place, self._depth = content, 0, 0
        self._kinds = {
            **dict.fromkeys((1, 2), lambda: None),
            3: self._byte,
            **dict.fromkeys((4, 5, 6), self._integer),
            7: lambda: self._skip(8),
            8: lambda: self._skip(self._varint()),
            **dict.fromkeys((9, 10), self._list),
            11: self._map,
            12: self.struct,
        }

    def struct(self):
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ValueError("its footer is nested too deep")
        found, number = {}, 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._kinds[head & 15]()
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
        # Each takes a byte at least.
        if count > len(self._content) - self._place:
            raise ValueError("its footer is damaged")
        # Here a boolean is a byte.
        read = [self._byte if kind in (1, 2) else self._kinds[kind] for kind in kinds]
        return [[each() for each in read][-1] for _ in range(count)]

    def _byte(self):
        self._place += 1
        return self._content[self._place - 1]

    def _skip(self, count):
        self._place += count

    def _varint(self):
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _integer(self):
        value = self._varint()
        return value >> 1 ^ -(value & 1)
