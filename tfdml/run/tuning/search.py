"""Searches for the settings of a run, or goes on with a search."""

import functools
import logging

from tfdml.run.experiment.length import STEPS
from tfdml.run.tuning import outcome
from tfdml.run.tuning.halving import Halving
from tfdml.run.tuning.plan import ETA, shortest
from tfdml.run.tuning.search_directory import TIME, SearchDirectory
from tfdml.run.tuning.search_progress import SearchProgress
from tfdml.run.tuning.space import SPACE, draw
from tfdml.run.tuning.trials import Trials, trial_flags

# Steps of an epoch: a trial that is stopped goes on from the end of one.
EPOCH = 50


def search(settings, serialized, fixed, *, tune_dir, minutes, more=()):
    """Searches for settings until the time is over, or goes on with it; writes what won.

    Args:
        settings: `Settings` of the first trial.
        serialized: the same as `{name: "--name=value"}`.
        fixed: names of flags that no trial changes.
        tune_dir: folder of the search.
        minutes: time that it may take.
        more: other flags for the processes of trials.

    Returns:
        The `SearchState`, the list of `Lead` of the trial that won, the path of its flagfile, and that of its run.
    """
    epoch, longest = lengths_of(settings.length)
    drawn = draw(serialized, fixed, settings.run.seed)
    open_flags = [name for name in SPACE if name not in fixed]
    if not drawn:
        raise ValueError(f"Nothing is left to choose: all of {_flags(SPACE)} are given. Leave out some of them.")
    folder = SearchDirectory(tune_dir)
    known = {**serialized, TIME: f"--{TIME}={minutes:g}", "choice": f"a choice of {_flags(open_flags)}"}
    with folder.claimed(known) as state:
        trials = Trials(folder, state, trial_flags(settings, serialized, epoch), more)
        progress = SearchProgress(60 * minutes)
        options = {"drawn": drawn, "epoch": epoch, "longest": longest, "progress": progress}
        halving = Halving(state, functools.partial(folder.write, state), trials, seconds=60 * minutes, **options)
        trials.tick = halving.tick
        logs = folder.log(0).parent / "*.log"
        logging.getLogger(__name__).info("What the processes of trials print is in %s.", logs)
        halving.run()
        progress.end()
        leads = outcome.leads(state, folder, {"import_modules": list(settings.run.import_modules)})
        winner = outcome.write_best(state, folder, serialized, settings.length.steps, epoch)
        return state, leads, folder.best_flags, folder.trial(winner.trial)


def lengths_of(length):
    """Returns the steps of an epoch, and those of the longest trial at most.

    Args:
        length: `LengthSettings`.
    """
    longest = length.steps or STEPS
    epoch = length.steps_per_epoch or max(1, min(EPOCH, longest // (ETA * shortest(1))))
    if longest < ETA * shortest(epoch):
        raise ValueError(
            f"Expected --steps of {ETA * shortest(epoch)} or more, the longest trial, where epochs have {epoch} steps; "
            f"received {longest}."
        )
    return epoch, longest


def _flags(names):
    return ", ".join(f"--{name}" for name in names)
