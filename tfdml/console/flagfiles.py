"""Flagfiles of a command, and those that they name; recipes are found from any folder."""

import difflib
import os
import stat

NAMES = ("--flagfile", "-flagfile")
GIVEN = tuple(f"{name}=" for name in NAMES)
COMMENTS = ("#", "//")
# What a shell puts where a command has `<(...)`: a pipe that can be read once only.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Where the recipes are: in an installed package, and in the repository.
RECIPES = (os.path.join(PACKAGE, "configs"), os.path.join(os.path.dirname(PACKAGE), "configs"))


def expanded(arguments):
    """Returns arguments with the flags of flagfiles in their place, also of those that flagfiles name.

    Args:
        arguments: arguments of a command, without its name.
    """
    flags, reading = [], [("", iter(arguments))]
    while reading:
        argument = next(reading[-1][1], None)
        if argument is None:
            reading.pop()
        elif argument == "--":
            # absl reads no flags after it.
            return [*flags, argument, *(each for _, rest in reversed(reading) for each in rest)]
        elif argument in NAMES or argument.startswith(GIVEN):
            named = next(reading[-1][1], None) if argument in NAMES else argument.partition("=")[2]
            if named is None:
                raise ValueError("--flagfile has no value. Expected --flagfile=FILE, such as configs/quickstart.flags.")
            path = located(named)
            above = [each for each, _ in reading[1:]]
            if path in above:
                names = " names ".join([*above[above.index(path) :], path])
                raise ValueError(f"--flagfile={named} leads back to itself: {names}. Remove one of these lines.")
            if path.startswith(OF_THE_SHELL):
                flags.append(f"--flagfile={path}")
            elif path:
                reading.append((path, iter(_flags_in(path, named))))
        else:
            flags.append(argument)
    return flags


def located(path):
    """Returns the path of a flagfile, or if there is none, of the recipe of that name, which ships with tfdml.

    Args:
        path: path, such as `configs/quickstart.flags`; for a recipe `quickstart.flags` is enough.
    """
    path = os.path.expanduser(path)
    folder, name = os.path.split(os.path.normpath(path))
    shipped = os.path.join(recipes_folder(), name)
    return shipped if folder in ("", "configs") and not os.path.exists(path) and os.path.isfile(shipped) else path


def recipes_folder():
    """Returns the folder of the recipes."""
    return next(filter(os.path.isdir, RECIPES), RECIPES[0])


def recipes():
    """Returns the sorted names of the recipes' files."""
    folder = recipes_folder()
    return sorted(name for name in os.listdir(folder) if name.endswith(".flags")) if os.path.isdir(folder) else []


def _flags_in(path, named):
    """Returns the flags of a flagfile: its lines without comments."""
    if not os.path.exists(path) or os.path.isdir(path):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise FileNotFoundError(f"--flagfile={named} {what}. Expected a file of flags.{_recipe_like(named)}")
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        # Reading it may never end.
        raise OSError(f"--flagfile={named} cannot be read: {path} is a {kind}, and no file.")
    with open(path, "rb") as file:
        content = file.read()
    try:
        lines = [line.strip() for line in content.decode().splitlines()]
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text, from byte {error.start:,} on"
        raise ValueError(f"--flagfile={named} cannot be read: {reason}.") from None
    return [line for line in lines if line and not line.startswith(COMMENTS)]


def _recipe_like(named):
    """Returns a suggestion for a flagfile that does not exist; empty if no recipe has a similar name."""
    name = f"{os.path.basename(named).removesuffix('.flags')}.flags"
    alike = difflib.get_close_matches(name, recipes(), n=1)
    return f" Did you mean --flagfile=configs/{alike[0]}?" if alike else ""
