"""Flagfiles that a command is given, and those that these name."""

import os
import stat

NAMES = ("--flagfile", "-flagfile")
GIVEN = tuple(f"{name}=" for name in NAMES)
# What a shell puts where a command has `<(...)`: a pipe that can be read once only.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def check_flagfiles(arguments):
    """Raises an error if a flagfile is no file of text; that one does not exist, who reads it says.

    Args:
        arguments: arguments of a command.
    """
    pending, seen = _named(arguments), set()
    while pending:
        path = os.path.expanduser(pending.pop())
        if path in seen or path.startswith(OF_THE_SHELL) or not os.path.exists(path) or os.path.isdir(path):
            continue
        seen.add(path)
        try:
            pending += _named(_lines(path))
        except ValueError as error:
            raise ValueError(f"--flagfile={path} cannot be read: {error}.") from None


def _lines(path):
    """Returns the lines of a file; an error if it is none, whose reading may never end, or is no text."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise OSError(f"{path} is a {kind}, and no file")
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8 text, from byte {error.start:,} on") from None


def _named(arguments):
    """Returns the paths of the flagfiles that arguments, or the lines of a flagfile, name."""
    arguments = [argument.strip() for argument in arguments]
    found = [argument.partition("=")[2] for argument in arguments if argument.startswith(GIVEN)]
    followed = [place for place, argument in enumerate(arguments[:-1]) if argument in NAMES]
    return [*found, *(arguments[place + 1] for place in followed)]
