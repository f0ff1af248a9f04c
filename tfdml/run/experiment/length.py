"""How long a run trains."""

# Steps of a run that says neither steps nor epochs; about as many where an epoch is said.
STEPS = 2000
# Evaluations of a run that says its steps, and not when it is evaluated.
EVALUATIONS = 10
# Evaluations on validation classes without improvement after which a run stops that says none.
PATIENCE = 5
# How many times longer or shorter than a pass over the training images an epoch may be that follows from --steps.
MOST_APART = 4
# Rise of a metric in the last quarter of a run from which the command says so.
NOTEWORTHY = 0.01


def steps_of(settings):
    """Returns the number of steps of a run whose length is in steps; 0 where it is in epochs."""
    if settings.steps or settings.epochs:
        return settings.steps
    of_epoch = settings.steps_per_epoch or 1
    return max(1, round(STEPS / of_epoch)) * of_epoch


def steps_per_epoch_of(settings, batches):
    """Returns the number of steps that are an epoch of a run.

    Args:
        settings: namespace with the flags' values.
        batches: number of batches in the training images.
    """
    given, steps = settings.steps_per_epoch, steps_of(settings)
    if steps and given and steps % given:
        raise ValueError(
            f"--steps={steps} is not a multiple of --steps_per_epoch={given}. Give one that is, or leave out "
            "--steps_per_epoch."
        )
    if given or not steps:
        return given or max(batches, 1)
    # Epochs of equal length, of about the batches in the training images.
    batches = max(batches, 1)

    def is_far(size):
        return max(size, batches) > MOST_APART * min(size, batches)

    size = min(_divisors(steps), key=lambda size: (is_far(size), abs(size - batches)))
    if is_far(size) and steps > batches:
        raise ValueError(
            f"--steps={steps} cannot be divided into epochs of about {batches} steps, a pass over the training "
            f"images. Give --steps={round(steps / batches) * batches}, or --steps_per_epoch, the length of an epoch."
        )
    return size


def epochs_of(settings, steps_per_epoch):
    """Returns the number of epochs of a run."""
    steps = steps_of(settings)
    return steps // steps_per_epoch if steps else settings.epochs


def evaluations_of(settings, steps_per_epoch):
    """Returns after how many epochs or steps a run is evaluated, and which of them: `epochs` or `steps`."""
    steps = steps_of(settings)
    if settings.eval_every:
        epochs = epochs_of(settings, steps_per_epoch)
        whole = epochs if settings.eval_unit == "epochs" else epochs * steps_per_epoch
        # A shorter run is evaluated at its end: otherwise its best model would be the untrained one.
        return min(settings.eval_every, whole), settings.eval_unit
    if not steps:
        return 1, "epochs"
    # The last step is evaluated, too; of a prime number of steps, only that.
    sizes = [size for size in _divisors(steps) if size * 2 * EVALUATIONS >= steps]
    return min(sizes, key=lambda size: abs(size - steps / EVALUATIONS)), "steps"


def plan_of(settings, steps_per_epoch):
    """Returns a sentence that tells how long a run trains, and when it is evaluated."""
    epochs, (every, unit) = epochs_of(settings, steps_per_epoch), evaluations_of(settings, steps_per_epoch)
    often = unit.removesuffix("s") if every == 1 else f"{every:,} {unit}"
    length = f"{epochs * steps_per_epoch:,} steps, {epochs:,} epoch{'s' * (epochs > 1)} of {steps_per_epoch:,}"
    return f"{length}; evaluated on {settings.evaluate_on} every {often}."


def patience_of(settings):
    """Returns the number of evaluations without improvement after which a run stops; None: it does not."""
    if settings.patience < 0:
        return PATIENCE if settings.evaluate_on == "validation" else None
    return settings.patience or None


def _divisors(steps):
    return [size for size in range(1, steps + 1) if steps % size == 0]


def late_rise(history, metric):
    """Returns a sentence that tells how much the metric of a run still rose in its last quarter, or None if little.

    Args:
        history: list of `{"step": ..., "metrics": ...}`, as `RetrievalEvaluation` has it.
        metric: name.
    """
    last = history[-1]["step"]
    earlier = [entry["metrics"][metric] for entry in history if entry["step"] <= 0.75 * last]
    late = [entry["metrics"][metric] for entry in history if entry["step"] > 0.75 * last]
    rise = max(late) - max(earlier) if earlier and late else 0.0
    if rise < NOTEWORTHY:
        return None
    return (
        f"{metric} still rose by {rise:.3f} in the last quarter of the steps: train longer, such as --steps={2 * last}."
    )
