"""Trains in a process of its own, which stops with this one or on request."""

import contextlib
import os
import signal
import subprocess
import sys

from tfdml.console.command import STOPPED_STATUS
from tfdml.console.startup import PIPE_OF_PARENT, TrainingStopped


class StopRequest:
    """Context in which SIGTERM and Ctrl-C set `requested` and call `tell`; a second Ctrl-C interrupts at once."""

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


# The beginning of the line with which a command fails.
ERROR = "Error: "


def status_of_training(arguments, follow, stopped, **streams):
    """Trains in a process of its own, and returns its exit status. SIGTERM and Ctrl-C stop it, and then this one.

    If this process is killed, the other one ends too: it would hold the folder of the run. `arguments` are flags of
    `tfdml.train`, and `follow` returns when the process has ended, or closed what it prints to. If it was stopped, the
    `TrainingStopped` says `stopped`. `streams` are those of `subprocess.Popen`.
    """
    processes = []
    # From a terminal Ctrl-C reaches it, too; SIGTERM beside it does no harm, where one more Ctrl-C would interrupt it.
    with StopRequest(tell=lambda: [process.terminate() for process in processes]) as stop:
        with _process(arguments, streams) as process:
            processes.append(process)
            if stop.requested:
                process.terminate()
            follow(process)
    if stop.requested or process.returncode == STOPPED_STATUS:
        raise TrainingStopped(stopped)
    return process.returncode


@contextlib.contextmanager
def _process(arguments, streams):
    """Starts the process, which sees the end of a pipe when this process ends, however it ends; and waits for it."""
    watched, held = os.pipe()
    try:
        environment = {**os.environ, PIPE_OF_PARENT: str(watched)}
        command = [sys.executable, "-m", "tfdml.train", *arguments]
        try:
            process = subprocess.Popen(command, env=environment, pass_fds=[watched], **streams)
        finally:
            os.close(watched)
        with process:
            yield process
    finally:
        os.close(held)
