"""Successive halving: many short trials, of which the best go on, within a time."""

import statistics
import time

from tfdml.run.directory.run_directory import TAKEN
from tfdml.run.tuning.plan import Cost, TooShort, going_on, make_plan, shortest
from tfdml.run.tuning.trial_process import KILLED
from tfdml.run.tuning.trials import TrialFailed

# The recipe: the flags as they were given.
FIRST = 0


class Halving:
    """A search, which goes on from its state.

    Args:
        state: `SearchState`.
        save: function without arguments that writes the state.
        train: function of the number of a trial and of steps; it trains the trial to so many steps, or goes on with it,
            and returns its `Measured`, or raises `TrialFailed`.
        seconds: time that the search may take.
        drawn: what trials beside the first change, as `draw` returns it.
        epoch: number of steps of which lengths are multiples.
        longest: steps of the longest trial at most.
        progress: `SearchProgress`.
        clock: function that gives the time in seconds.
    """

    def __init__(self, state, save, train, *, seconds, drawn, epoch, longest, progress, clock=time.monotonic):
        self.state, self._save, self._train = state, save, train
        self.seconds, self.drawn, self.epoch, self.longest = seconds, drawn, epoch, longest
        self.progress, self._clock = progress, clock
        self._seen = clock()

    def tick(self):
        """Counts the time, and saves it: a search that is killed has spent it."""
        now = self._clock()
        self.state.seconds += now - self._seen
        self._seen = now
        self._save()

    def run(self):
        """Trains what is missing."""
        if self.state.measured:
            self.progress.say(f"Going on after {self.state.seconds / 60:.1f} of {self.seconds / 60:g} minutes.")
        self._forget_kills()
        if self.state.plan is None:
            self._begin()
        plan, rungs = self.state.plan, self.state.rungs
        for rung, length in enumerate(plan.lengths):
            if rung == len(rungs):
                rungs.append([FIRST, *self._chosen(rung)])
                self.tick()
            self._climb(rung, length)

    def _forget_kills(self):
        """Lets the current rung train trials again that failed by no error of their own, before this process began."""
        rung, failed = self.state.rungs[-1] if self.state.rungs else [], self.state.failed
        killed = [number for number in rung if failed.get(number, "").startswith((KILLED, TAKEN))]
        for number in killed:
            del failed[number]
        # After those that are measured: what follows a trial needs time. The first one is trained in any case.
        rung.sort(key=lambda number: number in killed and number != FIRST)

    def _begin(self):
        """Trains the first trial as long as the shortest rung is, and plans by what that takes."""
        length = shortest(self.epoch)
        if not self.state.at(FIRST, length):
            self._take(FIRST, length)
        if FIRST in self.state.failed:
            raise ValueError(self.state.failed[FIRST])
        left, cost = self.seconds - self.state.seconds, self._cost()
        try:
            self.state.plan = make_plan(left, cost, self.epoch, self.longest, len(self.drawn))
        except TooShort as short:
            raise ValueError(_too_short(self.seconds, self.state.seconds, length, cost, short)) from None
        self.state.changes += self.drawn[: self.state.plan.drawn]
        self.tick()
        planned = self.state.seconds + self.state.plan.seconds(cost, length)
        self.progress.say(f"The search trains {self.state.plan.told()}: about {planned / 60:.0f} minutes in all.")

    def _chosen(self, rung):
        """The numbers of the trials beside the first that a rung trains, best first."""
        if rung == 0:
            return list(range(1, len(self.state.changes)))
        before = self.state.plan.lengths[rung - 1]
        found = [self.state.at(number, before) for number in self.state.rungs[rung - 1] if number != FIRST]
        found = sorted((each for each in found if each), key=lambda each: -each.score)
        return [each.trial for each in found[: going_on(len(found))]]

    def _climb(self, rung, length):
        """Trains the trials of a rung, one after another; those that no longer fit into the time are left out."""
        numbers = self.state.rungs[rung]
        for place, number in enumerate(numbers):
            if self.state.at(number, length) or number in self.state.failed:
                continue
            # The first one is never left out: everything is compared with it.
            if number != FIRST and not self._fits(rung, number, place):
                self.progress.say(f"No time is left for {len(numbers) - place} of the trials of {length:,} steps.")
                self.state.rungs[rung] = numbers[:place]
                self.tick()
                break
            self._take(number, length)

    def _fits(self, rung, number, place):
        lengths, cost = self.state.plan.lengths, self._cost()
        last = self.state.last(number)
        own = (last and last.cost) or cost
        needed = own.of(lengths[rung] - (last.steps if last else 0))
        return self.state.seconds + needed + self.state.plan.seconds_after(rung, place, cost) <= self.seconds

    def _take(self, number, length):
        last = self.state.last(number)
        try:
            self.state.measured.append(self._train(number, length))
            # It may have failed before, for want of its weights.
            self.state.failed.pop(number, None)
        except TrialFailed as failed:
            self.state.failed[number] = str(failed)
        self.tick()
        self.progress.trained(self.state, number, length, length - (last.steps if last else 0))

    def _cost(self):
        """The `Cost` of a trial by those that were trained."""
        seen = [each.cost for each in self.state.measured if each.cost]
        if not seen:
            # They were complete when the search was stopped.
            return Cost(0.0, 0.0)
        return Cost(statistics.median(each.start for each in seen), statistics.fmean(each.step for each in seen))


def _too_short(seconds, spent, length, cost, short):
    needed = -(-(spent + short.needed) // 60)
    return (
        f"--minutes={seconds / 60:g} are too few: the first {length} steps took {cost.step * length:,.0f} seconds, and "
        f"to start and to measure {cost.start:,.0f} more. The smallest search trains {short.plan.told()}; give "
        f"--minutes={needed:.0f} or more."
    )
