"""Reads the flags of a run, `flags.txt`."""

import functools

from absl import logging

from tfdml.console import flags
from tfdml.files.checked_files import text_of

SHOWN = 3
# The last flag in files of the versions that wrote no checksums.
LAST = "warmup_epochs"
# Letters of a line in an error.
LONGEST = 200


def parse_flags(content, path, checked):
    """Returns what `flags.parse` returns of a file; a ValueError, without its path, that says what is wrong.

    Args:
        content: its bytes.
        path: its path.
        checked: whether its checksum is right. Without one, some flags may be missing, as of an earlier version, but
            not all behind one of them: the file was cut.
    """
    text = text_of(content)
    lines = text.splitlines()
    stray = [line for line in lines if not line.startswith("--") or line.startswith("--flagfile")]
    if stray:
        raise ValueError(f"expected --name=value on every line, received {stray[0][:LONGEST]!r}")
    settings, serialized = flags.parse(text)
    if not checked:
        _check_whole(text, path, {_name(line, serialized) for line in lines}, list(serialized))
    return settings, serialized


def _check_whole(text, path, present, names):
    missing = [name for name in names if name not in present]
    if not text.endswith("\n") or LAST in missing:
        raise ValueError(f"it is cut off: expected all flags down to --{LAST}, and the end of its line")
    if missing:
        _warn(path, ", ".join(f"--{name}" for name in missing[:SHOWN]) + " and more" * (len(missing) > SHOWN))


@functools.cache
def _warn(path, missing):
    """Warns once of a file, which is read many times."""
    logging.warning(
        "%s has no checksum, and lacks %s: it is of an earlier version, or damaged. The defaults are used.",
        path,
        missing,
    )


def _name(line, known):
    name = line.removeprefix("--").partition("=")[0]
    return name if name in known else name.removeprefix("no")
