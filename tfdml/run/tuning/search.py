"""Searches for the settings of a run, or continues a search."""

import functools
import logging

from tfdml.console import scores
from tfdml.console.progress_bar import ProgressBar, verbosity
from tfdml.run.experiment.length import STEPS, check_epochs
from tfdml.run.tuning import backbones, outcome
from tfdml.run.tuning.outcome import Halving
from tfdml.run.tuning.state import ETA, SPACE, TIME, SearchDirectory, draw, shortest
from tfdml.run.tuning.trials import Trials, trial_flags

LOGGER = logging.getLogger(__name__)


class SearchProgress:
    """Shows a bar of all steps in a terminal, or otherwise a line for each trial.

    `verbose` is 1 for a bar and 2 for lines. If None, it depends on whether the output is a terminal.
    """

    def __init__(self, seconds, verbose=None):
        self.seconds = seconds
        self.verbose = verbosity() if verbose is None else verbose
        self._bar = None

    def say(self, sentence):
        self.end()
        LOGGER.info(sentence)

    def trained(self, state, number, length, steps):
        """Shows that a trial was trained up to `length` steps, `steps` of them now, or that it failed."""
        if self.verbose == 1 and state.plan:
            # The steps of a trial include those of earlier rungs.
            done = sum(each.steps for each in state.ranked())
            self._bar = self._bar or ProgressBar(state.plan.steps(), "step", max(0, done - steps), verbose=1)
            self._bar.add(steps)
        elif self.verbose == 2:
            spent = f"{state.seconds / 60:.1f} of {self.seconds / 60:g} minutes"
            changes = " ".join(state.changes[number].values()) or outcome.RECIPE
            found = state.at(number, length)
            if found:
                reached = f"{scores.titled(state.metric)} {scores.score(state.metric, found.score)}"
            else:
                reached = f"failed: {state.failed[number].rstrip('.')}"
            LOGGER.info(f"Trial {number}, {length:,} steps: {reached} ({changes}; {spent})")

    def end(self):
        if self._bar:
            self._bar.end()
            self._bar = None


# Steps per epoch: a trial that is stopped resumes from the end of an epoch.
EPOCH = 50


def search(settings, serialized, fixed, *, tune_dir, minutes, more=(), features=()):
    """Starts or resumes a search, runs it until the time is over. Writes the best settings.

    The first trial has the `settings`, which `serialized` contains as `{name: "--name=value"}`. No trial changes the
    flags named in `fixed`. `more` are additional flags for the processes of trials. If there are `features`, paths of
    stored features of the same photos, all trials have the same length; see `backbones.alternatives`.
    Returns the table and the sentences of the outcome, the path of the best flagfile, and the path of its run.
    """
    epoch, longest = lengths_of(settings.length)
    compared = backbones.stored_features(features)
    if features:
        names, drawn = [backbones.FLAG, *backbones.CHOICES], backbones.alternatives(compared, serialized, fixed)
    else:
        names, drawn = list(SPACE), draw(serialized, fixed, settings.run.seed)
    if not drawn:
        raise ValueError(
            f"There is nothing to search for, because all of {_flags(names)} are set. Remove some of them."
        )
    set_by_trials = [name for name in names if name not in fixed]
    folder = SearchDirectory(tune_dir)
    identity = {**serialized, TIME: f"--{TIME}={minutes:g}", "choice": f"a choice of {_flags(set_by_trials)}"}
    identity |= {backbones.FLAG: f"--{backbones.FLAG}={','.join(features)}"} if features else {}
    with folder.claimed(identity) as state:
        trials = Trials(folder, state, functools.partial(trial_flags, settings, serialized, epoch), more)
        progress, save = SearchProgress(60 * minutes), functools.partial(folder.write, state)
        options = {"drawn": drawn, "epoch": epoch, "longest": longest, "progress": progress, "halves": not features}
        halving = Halving(state, save, trials, seconds=60 * minutes, **options)
        trials.tick = halving.tick
        LOGGER.info("The output of the trials is written to %s.", folder.log(0).parent / "*.log")
        halving.run()
        progress.end()
        modules = {"import_modules": list(settings.run.import_modules)}
        winner = outcome.write_best(state, folder, serialized, settings.length.steps, epoch)
        named = [(each.name, score.trial) for each, score in backbones.best_trials(state, compared)[1:]]
        leads = outcome.leads(state, folder, modules, named if features else None)
        if features:
            told = backbones.table(state, compared, folder), backbones.sentences(state, compared, leads)
        else:
            told = outcome.table(state), outcome.sentences(state, leads)
        return *told, folder.best_flags, folder.trial(winner.trial)


def lengths_of(length):
    """Returns the steps per epoch and the maximum number of steps of a trial for `LengthSettings`."""
    longest = length.steps or STEPS
    epoch = length.steps_per_epoch or max(1, min(EPOCH, longest // (ETA * shortest(1))))
    if longest < ETA * shortest(epoch):
        raise ValueError(
            f"--steps, the length of the longest trial, must be at least {ETA * shortest(epoch)} with "
            f"--steps_per_epoch={epoch}. Received: --steps={longest}."
        )
    check_epochs(length.steps, length.steps_per_epoch)
    return epoch, longest


def _flags(names):
    return ", ".join(f"--{name}" for name in names)
