"""Progress of work that counts things, such as images."""

import sys
import time

# Seconds from one line to the next.
EVERY = 10.0


def verbosity(chief=True):
    """Returns Keras' verbosity: a bar in a terminal, lines in a file; nothing of workers other than the chief."""
    if not chief:
        return 0
    return 1 if sys.stdout.isatty() else 2


class ProgressBar:
    """Shows how much is done: a bar with the time left in a terminal, and a line after `every` seconds elsewhere.

    `total` is None if nobody knows how many there are. Those `done` before do not count for the speed. `verbose` is 1
    for a bar, 2 for lines, 0 for nothing; None: whether the output is a terminal decides.
    """

    def __init__(self, total, unit, done=0, verbose=None, every=EVERY):
        self.total, self.unit, self.done, self.every = total, unit, done, every
        self.verbose = verbosity() if verbose is None else verbose
        self._bar = None
        if self.verbose == 1:
            # Here, because it takes seconds, and not every command has loaded it.
            import keras

            self._bar = keras.utils.Progbar(total, unit_name=unit)
            self._bar.add(done)
        self._speed = Speed()
        self._printed = time.monotonic()

    def add(self, count):
        """Counts `count` more as done."""
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
        """Ends a bar whose total nobody knew."""
        if self._bar:
            self._bar.update(self.done, finalize=True)


class Speed:
    """How fast work goes on after its first part, for which TensorFlow makes its graph."""

    def __init__(self):
        self._done, self._begun = 0, None

    def add(self, count):
        """Counts `count` things more as done."""
        if self._begun is not None:
            self._done += count
        elif count:
            self._begun = time.monotonic()

    def in_words(self, rest):
        """Returns how many a second are done, and how long the `rest`, if it is known, will take; empty at first."""
        if not self._done:
            return ""
        speed = self._done / max(time.monotonic() - self._begun, 1e-9)
        words = f", {speed:,.3g} a second"
        if rest is None:
            return words
        left = rest / speed
        return f"{words}, {left / 60:,.0f} min left" if left > 90 else f"{words}, {left:,.0f} s left"
