"""Damages files as accidents do: functions from the content of a file to a damaged one."""


def flipped(content, random):
    """One bit is another."""
    if not content:
        return b"\0"
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def cut(content, random):
    """The end is missing."""
    return content[: random.randrange(len(content) + 1)]


def holed(content, random):
    """A part has become zeros, as after a crash."""
    start = random.randrange(len(content) + 1)
    length = min(random.choice([1, 64, 4096]), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def without_part(content, random):
    """A part in the middle is missing."""
    start = random.randrange(len(content) + 1)
    return content[:start] + content[start + random.choice([1, 100, 4096]) :]


def repeated_part(content, random):
    """A part is there twice."""
    start = random.randrange(len(content) + 1)
    end = start + random.choice([1, 100, 4096])
    return content[:end] + content[start:]


def without_line(content, random):
    """A line of a text is missing."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for place, line in enumerate(lines) if not lines or place != random.randrange(len(lines)))


def ended_at_a_line(content, random):
    """A text ends after one of its lines: each line that is left is whole."""
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: random.randrange(len(lines) + 1)])


ANY = (flipped, cut, holed, without_part, repeated_part)
LINES = (*ANY, without_line, ended_at_a_line)
