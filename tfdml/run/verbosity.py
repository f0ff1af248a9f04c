"""How much a run prints of its progress."""

import sys


def verbosity(chief):
    """Keras' verbosity: a bar in a terminal, lines in a file; nothing of workers other than the chief."""
    if not chief:
        return 0
    return 1 if sys.stdout.isatty() else 2
