"""Trains in a process of its own, which stops with this one."""

import subprocess
import sys

from tfdml.console.command import STOPPED_STATUS
from tfdml.console.training_stopped import TrainingStopped
from tfdml.run.training.stop_request import StopRequest

# The beginning of the line with which a command fails.
ERROR = "Error: "


def status_of_training(arguments, follow, stopped, **streams):
    """Trains in a process of its own, and returns its exit status. SIGTERM and Ctrl-C stop it, and then this one.

    Args:
        arguments: flags of `tfdml.train`.
        follow: function of the process that returns when it has ended, or closed what it prints to.
        stopped: sentence of the `TrainingStopped` that is raised if it was stopped.
        **streams: as `subprocess.Popen` takes them.
    """
    processes = []
    # From a terminal Ctrl-C reaches it, too; SIGTERM beside it does no harm, where one more Ctrl-C would interrupt it.
    with StopRequest(tell=lambda: [process.terminate() for process in processes]) as stop:
        with subprocess.Popen([sys.executable, "-m", "tfdml.train", *arguments], **streams) as process:
            processes.append(process)
            if stop.requested:
                process.terminate()
            follow(process)
    if stop.requested or process.returncode == STOPPED_STATUS:
        raise TrainingStopped(stopped)
    return process.returncode
