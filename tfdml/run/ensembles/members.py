"""Trains the members of an ensemble, each an ordinary run with a seed of its own."""

import logging
import subprocess
import sys

import numpy as np

from tfdml.console import flags
from tfdml.run.directory.run_directory import ENDING
from tfdml.run.ensembles.joining import join
from tfdml.run.experiment.splits import validation_seed_of
from tfdml.run.loggers.choice import check_client, log_result
from tfdml.run.training.run_training import train
from tfdml.run.training.training_process import ERROR, status_of_training

LOGGER = logging.getLogger(__name__)
AGAIN = "Give the same command with --member={number} to train it alone, or without to train all that are missing."


def seed_of(seed, number):
    """The seed of a member; members of the same number in ensembles of other seeds have other ones."""
    # Not their sum: ensembles of neighboring seeds would share all members but one.
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) >> 1


def member_flags(settings, serialized, number):
    """The flags of a member, an ordinary run: its seed, and the validation classes that all members share.

    Args:
        settings: `Settings` of the ensemble.
        serialized: the same as `{name: "--name=value"}`.
        number: number of the member, from 0.
    """
    seed = settings.run.seed
    shared = validation_seed_of(settings.evaluation, seed)
    own = {"members": 0, "seed": seed_of(seed, number), "validation_seed": shared}
    return {**serialized, **{name: f"--{name}={value}" for name, value in own.items()}}


def train_member(settings, run, serialized, number):
    """Trains one member in this process, or goes on with it; returns its result, of several workers to the first.

    Args:
        settings: `Settings` of the ensemble.
        run: `EnsembleDirectory`.
        serialized: `{name: "--name=value"}`.
        number: number of the member.
    """
    count = settings.run.members
    if not 0 <= number < count:
        raise ValueError(f"--members={count} expects --member from 0 to {count - 1}, received {number}.")
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    own = member_flags(settings, serialized, number)
    return train(flags.parse("\n".join(own.values()))[0], run.member(number), own)


def train_ensemble(settings, run, serialized, more=()):
    """Trains the members that are not complete one after another, each in a process, and joins those that are.

    Args:
        settings: `Settings` of the ensemble.
        run: `EnsembleDirectory`.
        serialized: `{name: "--name=value"}`.
        more: other flags for each process.

    Returns:
        The result of the ensemble, or None where no member is complete, and a sentence on members that failed, or `""`.
    """
    if settings.run.devices == "workers":
        raise ValueError("--devices=workers trains one member at a time: give --member=0, then --member=1, and so on.")
    count = settings.run.members
    check_client(settings.run.logger)
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    result = run.joined(count)
    if result is not None:
        LOGGER.info("The ensemble in %s is complete; give another --run_dir to train again.", run.path)
        return result, ""
    failed = _train_missing(settings, run, serialized, more)
    complete = [run.member(number) for number in range(count) if number not in failed]
    if complete:
        run.claim(serialized)
        result = join(complete, run, asked=count, changes={"import_modules": settings.run.import_modules})
        log_result(run, result)
    if not failed:
        return result, ""
    reasons = "; ".join(f"{run.member(number).path}: {reason}" for number, reason in failed.items())
    again = AGAIN.format(number=next(iter(failed)))
    return result, f"{len(failed)} of {count} members failed: {reasons.rstrip('.')}. {again}"


def _train_missing(settings, run, serialized, more):
    """Trains the members that are not complete; returns number to reason of those that failed."""
    failed, count = {}, settings.run.members
    for number in range(count):
        member = run.member(number)
        if _complete(member):
            LOGGER.info("Member %d of %d is complete: %s", number + 1, count, member.path)
            continue
        LOGGER.info("Member %d of %d: %s", number + 1, count, member.path)
        own = member_flags(settings, serialized, number)
        reason = _taken(member) or run_member([*own.values(), f"--run_dir={member.path}", *more])
        if reason and not run.members():
            # The flags do not work together, for no member.
            raise ValueError(reason)
        if reason:
            failed[number] = reason
            LOGGER.warning("Member %d of %d failed: %s", number + 1, count, reason)
    return failed


def _complete(member):
    try:
        return member.result() is not None
    except ValueError:
        # Its own process says how its file is damaged.
        return False


def _taken(member):
    """Returns why a member's folder is not free, or None. The process of a command that was killed may be ending."""
    try:
        member.check_free(ENDING)
    except ValueError as taken:
        return str(taken)
    return None


def run_member(arguments):
    """Trains in a process of its own; returns why it failed, or None. SIGTERM and Ctrl-C stop it, and then this one.

    Args:
        arguments: flags of `tfdml.train`.
    """
    last = ""

    def follow(process):
        nonlocal last
        for line in process.stderr:
            last = line.strip() or last
            # Its error is printed with the name of the member.
            if not line.startswith(ERROR):
                sys.stderr.write(line)

    streams = {"stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    status = status_of_training(arguments, follow, "The ensemble stopped with this member.", **streams)
    if not status:
        return None
    return last.removeprefix(ERROR) if status > 0 and last else f"It ended by signal {-status}."
