"""Trains in a separate process, which stops on request or together with this process."""

import contextlib
import os
import signal
import subprocess
import sys

from tfdml.console.command import STOPPED_STATUS
from tfdml.console.startup import PIPE_OF_PARENT, TrainingStopped


class StopRequest:
    """Context in which SIGTERM and Ctrl-C set `requested` and call a function; a second Ctrl-C interrupts at once."""

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
        # Keep the signal of the user: after Ctrl-C, an ensemble also sends SIGTERM to its member.
        self.requested = self.requested or signal.Signals(number).name
        self._tell()


# Start of the line with the error of a command.
ERROR = "Error: "


def status_of_training(arguments, follow, stopped, **streams):
    """Trains in a separate process and returns its exit status. SIGTERM and Ctrl-C stop it, and then this process.

    If this process is killed, the other one ends as well, because it would keep the run directory locked. `arguments`
    are flags of `tfdml.train`, and `follow` returns after the process has ended or closed its output. If the process
    was stopped, `TrainingStopped` is raised with the text `stopped`. `streams` are arguments of `subprocess.Popen`.
    """
    processes = []
    # In a terminal, Ctrl-C reaches both processes. An additional SIGTERM is harmless; a second Ctrl-C would interrupt.
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
    """Starts the process and waits for it. It ends if this process ends, because that closes a pipe."""
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
