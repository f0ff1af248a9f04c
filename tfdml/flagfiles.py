"""Flagfiles that a command is given, and those that these name."""

import os

from tfdml.checked_files import OF_THE_SHELL, read_bytes, text_of

NAMES = ("--flagfile", "-flagfile")
GIVEN = tuple(f"{name}=" for name in NAMES)


def check_flagfiles(arguments):
    """Raises an error if a flagfile is no file of text; that one does not exist, who reads it says.

    Args:
        arguments: arguments of a command.
    """
    pending, seen = _named(arguments), set()
    while pending:
        path = os.path.expanduser(pending.pop())
        # A pipe of a shell can be read once only.
        if path in seen or path.startswith(OF_THE_SHELL) or not os.path.exists(path) or os.path.isdir(path):
            continue
        seen.add(path)
        try:
            pending += _named(text_of(read_bytes(path)).splitlines())
        except ValueError as error:
            raise ValueError(f"--flagfile={path} cannot be read: {error}.") from None


def _named(arguments):
    """Returns the paths of the flagfiles that arguments, or the lines of a flagfile, name."""
    arguments = [argument.strip() for argument in arguments]
    found = [argument.partition("=")[2] for argument in arguments if argument.startswith(GIVEN)]
    followed = [place for place, argument in enumerate(arguments[:-1]) if argument in NAMES]
    return [*found, *(arguments[place + 1] for place in followed)]
