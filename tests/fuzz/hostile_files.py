"""Binary files that somebody may have made on purpose: archives, tables, images."""

import io
import struct
import zipfile
import zlib

from tests.fuzz.damage import ANY
from tests.fuzz.hostile_texts import SECRET, TEXTS, change_json


def change_zip(content, random):
    """Changes a member of an archive: its content, its name, its size, or how often it is there."""
    try:
        members = _members(content)
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError):
        return content
    place = random.randrange(len(members)) if members else 0
    name, data = members[place] if members else ("x", b"")
    kind = random.randrange(8)
    if kind < 4:
        change = change_json if name.endswith(".json") else random.choice(ANY)
        members[place : place + 1] = [(name, change(data, random))]
    elif kind == 4:
        members[place : place + 1] = []
    elif kind == 5:
        members.append((random.choice([f"../{SECRET}", f"/{SECRET}", name, "x/" * 500 + "y", "\0"]), data))
    elif kind == 6:
        members[place : place + 1] = [(name, random.choice([b"", bytes(2**28)]))]
    else:
        members = [(f"{name}{number}", b"") for number in range(3000)]
    return _archive(members, random)


def _members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def _archive(members, random):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, archive.compression)
    made = file.getvalue()
    if random.randrange(6) == 0:
        # Sizes in the directory at the end that are not those of the members.
        start = made.rfind(b"PK\1\2")
        made = made[: start + 24] + struct.pack("<I", random.choice([0, 2**31, 2**32 - 1])) + made[start + 28 :]
    return made


def change_parquet(content, random):
    """Changes the type, values or number of the columns of a table."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    except (OSError, pyarrow.ArrowException):
        return content
    place = random.randrange(table.num_columns)
    name, count = table.column_names[place], len(table)
    column = random.choice(
        [
            lambda: pyarrow.array([random.choice(TEXTS).encode("utf-8", "replace").decode()] * count),
            lambda: pyarrow.array(["x" * 1_000_000, *["y"] * (count - 1)]).dictionary_encode(),
            lambda: pyarrow.array([2**64 - 1] * count, pyarrow.uint64()),
            lambda: pyarrow.array([float("nan")] * count),
            lambda: pyarrow.nulls(count, table.column(place).type),
            lambda: pyarrow.nulls(count),
            lambda: pyarrow.array([[1.0] * (number % 3) for number in range(count)]),
            lambda: pyarrow.array([b"\xff"] * count),
            lambda: pyarrow.array([{"a": number} for number in range(count)]),
            lambda: table.column(place).slice(0, 1).combine_chunks().take(pyarrow.array([0] * count)),
        ]
    )
    kind = random.randrange(6)
    if kind == 0:
        table = table.remove_column(place)
    elif kind == 1:
        table = table.append_column(name, table.column(place))
    elif kind == 2:
        table = table.slice(0, random.randrange(count + 1))
    else:
        table = table.set_column(place, name, column())
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    return file.getvalue()


def change_array(content, random):
    """Changes the header of a file of `numpy.save`."""
    header = random.choice(
        [
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
            "{'descr': '<U100000000', 'fortran_order': False, 'shape': (9,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "[" * 3000,
        ]
    )
    (length,) = struct.unpack_from("<H", content, 8)
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    return content[:8] + struct.pack("<H", len(padded)) + padded.encode() + content[10 + length :]


def change_image(content, random):
    """Changes the segments of a JPEG, the chunks of a PNG, or the chunks of a WebP."""
    if content.startswith(b"\xff\xd8"):
        return b"\xff\xd8" + b"".join(_shuffled(_jpeg_segments(content), random))
    if content.startswith(b"\x89PNG"):
        return content[:8] + b"".join(_shuffled(_chunks(content[8:], ">I", 0, 12), random))
    return content[:12] + b"".join(_shuffled(_chunks(content[12:], "<I", 4, 8), random))


def _shuffled(parts, random):
    """Drops, repeats, moves, resizes or damages one of the parts."""
    place = random.randrange(len(parts)) if parts else 0
    part, kind = (parts[place] if parts else b""), random.randrange(6)
    new = {
        0: [],
        1: [part] * random.choice([2, 100, 2000]),
        2: [random.choice(ANY)(part, random)],
        3: [part, random.choice(parts or [b""])],
        4: [part[:4] + random.randbytes(6) + part[10:]],
        5: [part[:8] + random.choice([b"\xff", b"\0"]) * 8 + part[16:]],
    }[kind]
    return [*parts[:place], *new, *parts[place + 1 :]]


def _jpeg_segments(content):
    """Segments with their markers; the coded data belongs to the segment before it."""
    starts = [place for place in range(2, len(content) - 1) if content[place] == 0xFF and content[place + 1] >= 0xC0]
    return [content[start:end] for start, end in zip(starts, [*starts[1:], len(content)], strict=True)]


def _chunks(content, layout, place, around):
    """Chunks of a file that have their length at a place; `around` bytes belong to a chunk beside its data."""
    chunks = []
    while len(content) >= around:
        (length,) = struct.unpack_from(layout, content, place)
        chunks.append(content[: length + around])
        content = content[length + around :]
    return [*chunks, content]
