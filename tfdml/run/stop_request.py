"""SIGTERM and Ctrl-C as a request to stop at the end of the step."""

import signal


class StopRequest:
    """Context in which SIGTERM and Ctrl-C only set `requested`; a second Ctrl-C interrupts at once.

    Args:
        tell: function without arguments that is called at each of them, too.
    """

    def __init__(self, tell=lambda: None):
        self.requested = None
        self._tell = tell

    def __enter__(self):
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number, frame):
        del frame
        if self.requested == "SIGINT" and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
        self._tell()
