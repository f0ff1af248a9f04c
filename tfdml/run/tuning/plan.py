"""How many trials a search has, and how long they train, so that all of it fits into its time."""

import dataclasses
import itertools
import math

# Of the trials of a rung one in so many goes on to the next, which is so many times as long.
ETA = 3
# Epochs of the first rung at least: the first has the time that TensorFlow takes to begin in it.
EPOCHS = 2
# Part of the time that is planned: trials differ in what a step takes.
PLANNED = 0.95
# Rungs, and the fewest trials beside the first that are worth so many: `python -m benchmarks.studies.searchers` finds
# more by many short trials than by few long ones.
SHAPES = ((3, 40), (2, 2))


@dataclasses.dataclass(frozen=True)
class Cost:
    """The time of a trial.

    Args:
        start: seconds of a process beside its steps: imports, the dataset, evaluation.
        step: seconds of a step.
    """

    start: float
    step: float

    def of(self, steps):
        """Seconds of a process that takes so many steps; none where there is nothing to do."""
        return self.start + steps * self.step if steps > 0 else 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """Rungs of successive halving. The first trial, the recipe, climbs all of them beside those that are drawn.

    Args:
        lengths: steps that trials have taken at the end of each rung.
        drawn: number of trials of the first rung beside the first trial.
    """

    lengths: tuple[int, ...]
    drawn: int

    @classmethod
    def of(cls, rungs, first, drawn):
        """Returns the plan of so many rungs, the first of which ends after so many steps."""
        return cls(tuple(first * ETA**rung for rung in range(rungs)), drawn)

    def seconds(self, cost, begun=0):
        """Returns what all of it takes.

        Args:
            cost: `Cost`.
            begun: steps that the first trial has taken already.
        """
        first = cost.of(self.lengths[0] - begun)
        return first + self.drawn * cost.of(self.lengths[0]) + self.seconds_after(0, self.drawn, cost)

    def seconds_after(self, rung, drawn, cost):
        """Returns what the rungs after one take in which so many trials beside the first were trained."""
        total = 0.0
        for number in range(rung + 1, len(self.lengths)):
            drawn = going_on(drawn)
            total += (1 + drawn) * cost.of(self.lengths[number] - self.lengths[number - 1])
        return total

    def counts(self):
        """Returns the number of trials beside the first of each rung."""
        counts = [self.drawn]
        while len(counts) < len(self.lengths):
            counts.append(going_on(counts[-1]))
        return counts

    def steps(self):
        """Returns the number of steps of all trials."""
        before = (0, *self.lengths)
        rungs = zip(self.counts(), self.lengths, before, strict=False)
        return sum((1 + drawn) * (length - shorter) for drawn, length, shorter in rungs)

    def told(self):
        """Returns words that tell the rungs."""
        rungs = [f"{drawn} for {length:,} steps" for drawn, length in zip(self.counts(), self.lengths, strict=True)]
        return f"the recipe for {self.lengths[-1]:,} steps, and beside it {', the best '.join(rungs)}"


def going_on(drawn):
    """Returns how many of a rung's trials go on to the next."""
    return max(1, drawn // ETA)


def shortest(epoch):
    """Returns the steps of the first rung at least."""
    return EPOCHS * epoch


def make_plan(left, cost, epoch, longest, most):
    """Returns the `Plan` of as many trials as fit into the time; of trials as long as that allows, if these are all.

    Their first rung takes about as long as a process needs to start, where that is longer than the shortest.

    Args:
        left: seconds that are left after the first `shortest(epoch)` steps of the first trial.
        cost: `Cost` of that trial.
        epoch: number of steps of which all lengths are multiples.
        longest: steps of the longest trial at most.
        most: number of trials that can be drawn, 1 or more.

    Raises:
        TooShort: there is not enough time for the smallest plan.
    """

    def fits(plan):
        return plan.seconds(cost, shortest(epoch)) <= PLANNED * left

    # Of a single one there is nothing to halve.
    for rungs, fewest in SHAPES if most > 1 else ((1, 1),):
        lengths = range(shortest(epoch), longest // ETA ** (rungs - 1) + 1, epoch)
        smallest = [Plan.of(rungs, first, fewest) for first in lengths if fewest <= most]
        if fitting := [plan for plan in smallest if fits(plan)]:
            wanted = cost.start / max(cost.step, 1e-9)
            first = next((plan for plan in fitting if plan.lengths[0] >= wanted), fitting[-1])
            plan = _last_that(fits, [dataclasses.replace(first, drawn=drawn) for drawn in range(fewest, most + 1)])
            longer = [Plan.of(rungs, length, most) for length in lengths if length >= plan.lengths[0]]
            return _last_that(fits, longer) if plan.drawn == most else plan
    raise TooShort(smallest[0], smallest[0].seconds(cost, shortest(epoch)) / PLANNED)


def _last_that(fits, plans):
    """The last of several plans, each of which takes longer than the one before, that fits; the first one does."""
    return list(itertools.takewhile(fits, plans))[-1]


class TooShort(Exception):
    """There is no time for a search.

    Args:
        plan: the smallest `Plan`.
        needed: seconds that it takes, and some more.
    """

    def __init__(self, plan, needed):
        super().__init__(f"{math.ceil(needed)} seconds are needed.")
        self.plan, self.needed = plan, needed
