"""Tells how far a search is."""

import logging

from tfdml.console.progress_bar import ProgressBar, verbosity

LOGGER = logging.getLogger(__name__)


class SearchProgress:
    """A bar of all steps in a terminal, and a line for each trial elsewhere.

    Args:
        seconds: time that the search may take.
        verbose: 1 for a bar, 2 for lines; None: whether the output is a terminal decides.
    """

    def __init__(self, seconds, verbose=None):
        self.seconds = seconds
        self.verbose = verbosity() if verbose is None else verbose
        self._bar = None

    def say(self, sentence):
        """Logs a sentence."""
        self.end()
        LOGGER.info(sentence)

    def trained(self, state, number, length, steps):
        """Tells that a trial was trained, or has failed.

        Args:
            state: `SearchState`.
            number: number of the trial.
            length: steps that it should have taken in all.
            steps: steps that it should have taken now.
        """
        if self.verbose == 1 and state.plan:
            # The steps of a trial at the end of a rung are those of all rungs before, too.
            done = sum(max(each.steps for each in state.measured if each.trial == trial) for trial in _trials(state))
            self._bar = self._bar or ProgressBar(state.plan.steps(), "step", max(0, done - steps), verbose=1)
            self._bar.add(steps)
        elif self.verbose == 2:
            spent = f"{state.seconds / 60:.1f} of {self.seconds / 60:g} minutes"
            changes = " ".join(state.changes[number].values()) or "the recipe"
            LOGGER.info(f"Trial {number}, {length:,} steps: {_outcome(state, number, length)}; {spent}; {changes}")

    def end(self):
        """Ends the bar, if there is one."""
        if self._bar:
            self._bar.end()
            self._bar = None


def _trials(state):
    return {each.trial for each in state.measured}


def _outcome(state, number, length):
    measured = state.at(number, length)
    return f"{state.metric} {measured.score:.3f}" if measured else f"failed: {state.failed[number]}"
