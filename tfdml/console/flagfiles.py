"""Flagfiles that a command is given, and those that these name."""

import os
import stat

NAMES = ("--flagfile", "-flagfile")
GIVEN = tuple(f"{name}=" for name in NAMES)
# What a shell puts where a command has `<(...)`: a pipe that can be read once only.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# Flagfiles that name each other: absl reads each by a call in the call before.
DEEPEST = 100


def check_flagfiles(arguments):
    """Raises an error if a flagfile is no file of text, or leads back to itself, or too deep.

    That one does not exist, who reads it says. absl would leave a file out that leads back to itself.

    Args:
        arguments: arguments of a command.
    """
    depths = {}
    for path in _named(arguments):
        _depth(path, [], depths)


def _depth(path, above, depths):
    """Returns how many flagfiles are below each other from this one on; each is read once.

    Args:
        path: of the flagfile.
        above: list of the paths of those that lead to it.
        depths: path to depth of those that were read.
    """
    path = os.path.expanduser(path)
    if path in above:
        names = " names ".join([*above[above.index(path) :], path])
        raise ValueError(f"--flagfile={path} leads back to itself: {names}. Remove one of these lines.")
    if path.startswith(OF_THE_SHELL) or not os.path.exists(path) or os.path.isdir(path):
        return 0
    if len(above) + depths.get(path, 1) > DEEPEST:
        raise ValueError(
            f"--flagfile={[*above, path][0]} leads to flagfiles that name each other more than {DEEPEST} deep. Put "
            "their flags into fewer files."
        )
    if path not in depths:
        try:
            lines = _lines(path)
        except ValueError as error:
            raise ValueError(f"--flagfile={path} cannot be read: {error}.") from None
        depths[path] = 1 + max((_depth(each, [*above, path], depths) for each in _named(lines)), default=0)
    return depths[path]


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
