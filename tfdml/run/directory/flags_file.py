"""Reads the flags of a run, `flags.txt`."""

from tfdml.console import flags
from tfdml.files.checked import text_of

# Letters of a line in an error.
LONGEST = 200


def parse_flags(content, checked):
    """Returns what `flags.parse` returns of a file; a ValueError, without its path, that says what is wrong.

    Args:
        content: its bytes.
        checked: whether its checksum is right. Without one, the file must have a line for each flag.
    """
    text = text_of(content)
    lines = text.splitlines()
    stray = [line for line in lines if not line.startswith("--") or line.startswith("--flagfile")]
    if stray:
        raise ValueError(f"expected --name=value on every line, received {stray[0][:LONGEST]!r}")
    settings, serialized = flags.parse(text)
    if not checked and (not text.endswith("\n") or len(lines) < len(serialized)):
        raise ValueError(f"it is cut off: expected {len(serialized)} flags, and the end of the last line")
    return settings, serialized
