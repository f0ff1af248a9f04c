"""Trains a trial in a process of its own."""

import subprocess

from tfdml.run.training.training_process import ERROR, status_of_training

# Seconds after which the time that a search has taken is saved.
TICK = 5.0
# How the reason of a process that was killed begins: perhaps the machine was shut down, or its memory was full.
KILLED = "It ended by signal"


def train_in_process(arguments, log, tick, every=TICK):
    """Trains in a process of its own; returns why it failed, or None. SIGTERM and Ctrl-C stop it, and then this one.

    Args:
        arguments: flags of `tfdml.train`.
        log: file to which all that it prints is added.
        tick: function without arguments that is called while it trains.
        every: seconds from one call to the next.
    """

    def follow(process):
        while _runs(process, every):
            tick()

    with open(log, "ab") as output:
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        status = status_of_training(arguments, follow, "The search stopped with this trial.", **streams)
    return _reason(status, log) if status else None


def _runs(process, seconds):
    """Whether a process still runs after so many seconds; returns sooner if it ends."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _reason(status, log):
    if status < 0:
        return f"{KILLED} {-status}."
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    return errors[-1] if errors else f"It ended with status {status}; {log} has what it printed."
