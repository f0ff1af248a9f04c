"""How long a run trains."""

import dataclasses

from tfdml.console import scores

# Default number of steps, rounded to whole epochs if --steps_per_epoch is set.
STEPS = 2000
# Default number of evaluations of a run with --steps.
EVALUATIONS = 10
# Default number of evaluations on validation classes without improvement after which a run stops.
PATIENCE = 5
# The fraction of such a run in which evaluations do not count toward the patience.
WARM_UP = 0.2
# Maximum ratio between the length of an epoch that follows from --steps and a pass over the training images.
MOST_APART = 4
# Minimum rise of a metric in the last quarter of a run that the command mentions.
NOTEWORTHY = 0.01


@dataclasses.dataclass(frozen=True)
class Length:
    """How many steps and epochs a run trains, and when it is evaluated.

    `evaluations` is the number of `epochs` or `steps` between two evaluations. The run stops after `patience`
    evaluations without improvement, unless that is None. Evaluations before the step `patience_from` do not count.
    """

    steps: int
    epochs: int
    steps_per_epoch: int
    evaluations: tuple[int, str]
    patience: int | None
    patience_from: int

    @classmethod
    def of(cls, settings, evaluation, batches):
        """Returns the length of a run with these settings, if a pass over the training images has `batches` batches."""
        asked, of_epoch = steps_of(settings), _steps_per_epoch(settings, batches)
        epochs = asked // of_epoch if asked else settings.epochs
        evaluations = _evaluations(evaluation, asked, epochs, of_epoch)
        steps = epochs * of_epoch
        # If the flag is a number, all evaluations count.
        patience, patience_from = settings.patience or None, 0
        if settings.patience < 0:
            patience = PATIENCE if evaluation.evaluate_on == "validation" else None
            patience_from = round(WARM_UP * steps)
        return cls(steps, epochs, of_epoch, evaluations, patience, patience_from)

    def in_words(self, split):
        """Returns a sentence on how long the run trains and when it is evaluated on a split, given by its name."""
        every, unit = self.evaluations
        often = unit.removesuffix("s") if every == 1 else f"{every:,} {unit}"
        epochs = f"{self.epochs:,} epoch{'s' * (self.epochs > 1)} of {self.steps_per_epoch:,}"
        return f"{self.steps:,} steps ({epochs} steps), evaluated on the {split} set every {often}."


def steps_of(settings, of_epoch=0):
    """Returns the number of steps of `LengthSettings`. If it is set in epochs, these have `of_epoch` steps."""
    if settings.steps or settings.epochs:
        return settings.steps or settings.epochs * of_epoch
    of_epoch = settings.steps_per_epoch or 1
    return max(1, round(STEPS / of_epoch)) * of_epoch


def check_epochs(steps, of_epoch):
    """Raises a ValueError if a number of steps cannot be divided into epochs of `of_epoch` steps. Either may be 0."""
    if steps and of_epoch and steps % of_epoch:
        raise ValueError(
            f"--steps={steps} must be a multiple of --steps_per_epoch={of_epoch}. Change --steps, or remove "
            "--steps_per_epoch."
        )


def _steps_per_epoch(settings, batches):
    of_epoch, steps = settings.steps_per_epoch, steps_of(settings)
    check_epochs(steps, of_epoch)
    if of_epoch or not steps:
        return of_epoch or max(batches, 1)
    # Epochs have equal lengths, which are close to a pass over the training images.
    batches = max(batches, 1)

    def is_far(size):
        return max(size, batches) > MOST_APART * min(size, batches)

    size = min(_divisors(steps), key=lambda size: (is_far(size), abs(size - batches)))
    if is_far(size) and steps > batches:
        raise ValueError(
            f"--steps={steps} cannot be divided into epochs of about {batches} steps, which is a pass over the "
            f"training images. Use --steps={round(steps / batches) * batches}, or set the length of an epoch with "
            "--steps_per_epoch."
        )
    return size


def _evaluations(evaluation, asked, epochs, of_epoch):
    """Returns when a run is evaluated. `asked` is its number of steps if --steps is set."""
    if evaluation.eval_every:
        whole = epochs if evaluation.eval_unit == "epochs" else epochs * of_epoch
        # A shorter run is evaluated at its end, because its best model would otherwise be the initial one.
        return min(evaluation.eval_every, whole), evaluation.eval_unit
    if not asked:
        return 1, "epochs"
    # The last step is always evaluated. With a prime number of steps, it is the only one.
    sizes = [size for size in _divisors(asked) if size * 2 * EVALUATIONS >= asked]
    return min(sizes, key=lambda size: abs(size - asked / EVALUATIONS)), "steps"


def _divisors(steps):
    return [size for size in range(1, steps + 1) if steps % size == 0]


def late_rise(history, metric):
    """Returns a sentence if a metric still rose in the last quarter of a `RetrievalEvaluation` history, or None."""
    last = history[-1]["step"]
    earlier = [entry["metrics"][metric] for entry in history if entry["step"] <= 0.75 * last]
    late = [entry["metrics"][metric] for entry in history if entry["step"] > 0.75 * last]
    rise = max(late) - max(earlier) if earlier and late else 0.0
    if rise < NOTEWORTHY:
        return None
    return (
        f"{scores.titled(metric)} still rose by {scores.difference(metric, rise, sign='')} in the last quarter of the "
        f"steps. To train longer, repeat the command with the same --run_dir and, for example, --steps={2 * last}."
    )
