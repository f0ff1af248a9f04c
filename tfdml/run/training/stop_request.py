"""SIGTERM and Ctrl-C as a request to stop at the end of the step."""

import signal


class StopRequest:
    """Context in which SIGTERM and Ctrl-C only set `requested`; a second Ctrl-C interrupts at once.

    Args:
        tell: function without arguments that is called at each of them, too.
    """

    def __init__(self, tell=lambda: None):
        self.requested = None
        self._interrupted = False
        self._tell = tell

    def __enter__(self):
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number, frame):
        del frame
        if self._interrupted and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._interrupted |= number == signal.SIGINT
        # Of Ctrl-C and the SIGTERM that an ensemble sends its member then, what the user did.
        self.requested = self.requested or signal.Signals(number).name
        self._tell()
