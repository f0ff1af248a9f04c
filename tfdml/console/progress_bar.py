"""Progress of work on a number of items, such as images."""

import sys
import time

# Seconds between lines.
EVERY = 10.0


def verbosity(chief=True):
    """Returns Keras' verbosity: a bar in a terminal, lines in a file, and nothing for workers other than the chief."""
    if not chief:
        return 0
    return 1 if sys.stdout.isatty() else 2


class ProgressBar:
    """Shows progress: a bar in a terminal, or otherwise a line every `every` seconds.

    Args:
        total: Number of items, or None if it is unknown.
        unit: Name of one item, such as "image".
        done: Number of items that are already done. They do not count for the speed.
        verbose: 1 for a bar, 2 for lines, 0 for nothing. If None, it depends on whether the output is a terminal.
        every: Seconds between lines.
    """

    def __init__(self, total, unit, done=0, verbose=None, every=EVERY):
        self.total, self.unit, self.done, self.every = total, unit, done, every
        self.verbose = verbosity() if verbose is None else verbose
        self._bar = None
        if self.verbose == 1:
            # Imported here, because the import takes seconds and not every command needs it.
            import keras

            self._bar = keras.utils.Progbar(total, unit_name=unit)
            self._bar.add(done)
        self._speed = Speed()
        self._printed = time.monotonic()

    def add(self, count):
        """Counts `count` more items as done."""
        self.done += count
        if self._bar:
            self._bar.add(count)
        self._speed.add(count)
        now = time.monotonic()
        if self.verbose == 2 and now - self._printed >= self.every:
            self._printed = now
            count = f"{self.done:,}" if self.total is None else f"{self.done:,}/{self.total:,}"
            rest = None if self.total is None else self.total - self.done
            print(f"{count} {self.unit}s{self._speed.in_words(rest)}", flush=True)

    def end(self):
        """Completes the bar, which is needed if the total is unknown."""
        if self._bar:
            self._bar.update(self.done, finalize=True)


class Speed:
    """The speed of the work, not counting the first items, during which TensorFlow traces its graph."""

    def __init__(self):
        self._done, self._begun = 0, None

    def add(self, count):
        """Counts `count` more items as done."""
        if self._begun is not None:
            self._done += count
        elif count:
            self._begun = time.monotonic()

    def in_words(self, rest):
        """Returns the speed and the time left for the `rest`, if it is known; empty before there is a speed."""
        if not self._done:
            return ""
        speed = self._done / max(time.monotonic() - self._begun, 1e-9)
        words = f", {speed:,.3g} per second"
        if rest is None:
            return words
        left = rest / speed
        return f"{words}, {left / 60:,.0f} min left" if left > 90 else f"{words}, {left:,.0f} s left"
