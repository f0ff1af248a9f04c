"""How much a run prints of its progress."""

import sys

from tfdml.progress_lines import ProgressLines


def of_training():
    """Keras' verbosity of training: a bar in a terminal, a line an epoch in a file."""
    return 1 if sys.stdout.isatty() else 2


def bar():
    """Keras' verbosity of a pass over images: a bar in a terminal, a line every few seconds in a file."""
    return 1 if sys.stdout.isatty() else 2


def lines():
    """Callbacks of training that print more often than once an epoch, in a file."""
    return [] if sys.stdout.isatty() else [ProgressLines()]
