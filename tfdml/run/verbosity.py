"""How much Keras prints of a run."""

import sys


def of_training():
    """Keras' verbosity of training: a bar in a terminal, a line an epoch in a file."""
    return 1 if sys.stdout.isatty() else 2


def bar():
    """Keras' verbosity of a pass over images: a bar in a terminal, nothing in a file."""
    return 1 if sys.stdout.isatty() else 0
