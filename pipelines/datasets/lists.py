"""Reads the text lists of published datasets; errors name the damaged line."""

# Class numbers are stored in 64 bits.
MOST = 2**63 - 1
# Letters of a line in an error.
LONGEST = 200


def read_list(path, /, *, header=0, **columns):
    """Reads the columns of a text file, separated by white space.

    Args:
        path: the file.
        header: number of lines before the first row.
        **columns: name to type (`str`, `int` or `float`) of every column, in order. The last may contain spaces.

    Returns:
        A list for each column.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no list {path}. Download the dataset again.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Download it again."
        ) from None
    rows = [_parse(path, number, line, columns) for number, line in enumerate(lines, 1) if number > header]
    rows = [row for row in rows if row]
    if not rows:
        raise ValueError(f"{path} lists nothing. Expected lines of {', '.join(columns)}.")
    return [list(column) for column in zip(*rows, strict=True)]


def read_numbered(path, /, **columns):
    """Like `read_list`, but returns a dictionary by the first column, whose values must be unique."""
    ids, *values = read_list(path, **columns)
    rows = list(zip(*values, strict=True)) if len(values) > 1 else values[0]
    numbered = dict(zip(ids, rows, strict=True))
    if len(numbered) < len(ids):
        twice = next(number for place, number in enumerate(ids) if number in ids[:place])
        raise ValueError(f"{path} has the {next(iter(columns))} {twice} twice. Download it again.")
    return numbered


def _parse(path, number, line, columns):
    words = line.split(maxsplit=len(columns) - 1)
    if not words:
        return None
    words[-1] = words[-1].rstrip()
    try:
        row = [kind(word) for kind, word in zip(columns.values(), words, strict=True)]
        if "\0" in line or any(isinstance(value, int) and abs(value) > MOST for value in row):
            raise ValueError
        return row
    except ValueError:
        expected = " ".join(f"<{name}>" for name in columns)
        numbers = [name for name, kind in columns.items() if kind is not str]
        raise ValueError(
            f"{path}, line {number}: expected {expected}{', numbers in ' + ', '.join(numbers) if numbers else ''}; "
            f"received {line.strip()[:LONGEST]!r}."
        ) from None
