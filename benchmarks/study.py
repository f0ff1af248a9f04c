"""Runs a study of benchmarks/studies/rows by its name: `python -m benchmarks.study emoji_losses --data_dir=data/emoji`.

This is the same as `python -m tfdml.study benchmarks.studies.rows.emoji_losses --data_dir=data/emoji`.
"""

import os
import pkgutil
import sys

from benchmarks.studies import rows


def arguments_of(given):
    """Returns the arguments of `tfdml.study`, with names of studies replaced by their modules."""
    known = {module.name for module in pkgutil.iter_modules(rows.__path__)}
    return [f"{rows.__name__}.{each}" if each in known else each for each in given]


def main():
    # Replace this process, so that Ctrl-C and the exit status are the command's own.
    os.execv(sys.executable, [sys.executable, "-m", "tfdml.study", *arguments_of(sys.argv[1:])])


if __name__ == "__main__":
    main()
