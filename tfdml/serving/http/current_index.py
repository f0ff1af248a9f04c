"""`CurrentIndex`: an index that is replaced while a service answers from it."""

import logging
import threading

# Seconds between looks at the files of the index.
INTERVAL = 1.0
GONE = "The index is out of reach; the log says why. It is tried again every second."
UNUSABLE = "The index has changed and cannot be used; the log says why. Answers are from the one before."


class CurrentIndex:
    """Follows the changes of an index on the disk, and whether one in an engine answers.

    A changed index is read beside the old one and takes its place when it is whole, and of the same model or upgraded.
    Until then `searcher` is the old one, and `problem` says why; else it is None. `is_gone`: an engine does not answer.

    Args:
        searcher: `tfdml.serving.Searcher`.
    """

    def __init__(self, searcher):
        self.searcher, self.problem = searcher, None
        self.is_gone = False
        self._state, self._told = None, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="index", daemon=True)

    def start(self):
        self._thread.start()

    def close(self):
        """Follows no further changes."""
        self._stop.set()

    def check(self):
        """Reads the index if it has changed since the last time."""
        try:
            state = self.searcher.state()
        except (OSError, ValueError) as error:
            # What lies in an engine is gone with it, and of another model it would be wrong to answer.
            self.is_gone, self._state = True, None
            self._tell(GONE, error)
            return
        if self.is_gone:
            self.is_gone, self.problem, self._told = False, None, None
        if state == self._state:
            return
        try:
            self.searcher, self.problem, self._told = self.searcher.reopened(), None, None
        except Exception as error:
            # Written to while it was read, it is read again.
            if self._has_left(state):
                return
            self._tell(UNUSABLE, error)
            if not isinstance(error, ValueError):
                # It may pass, as too many open files do, and is tried again.
                return
        self._state = state

    def _has_left(self, state):
        """Whether the index has another state by now, or is gone, which the next look tells."""
        try:
            return self.searcher.state() != state
        except (OSError, ValueError):
            return True

    def _tell(self, problem, error):
        self.problem, reason = problem, f"{str(error).rstrip('.')}."
        if reason != self._told:
            logging.getLogger(__name__).warning("%s The service goes on with the index that it has.", reason)
        self._told = reason

    def _work(self):
        while not self._stop.wait(INTERVAL):
            self.check()
