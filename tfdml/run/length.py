"""How long a run trains."""

# Rise of a metric in the last quarter of a run that is told.
TOLD = 0.01


def steps_per_epoch_of(settings, batches):
    """Returns the number of steps that are an epoch of a run.

    Args:
        settings: namespace with the flags' values.
        batches: number of batches in the training images.
    """
    given, steps = settings.steps_per_epoch, settings.steps
    if steps and given and steps % given:
        raise ValueError(
            f"--steps={steps} is not a multiple of --steps_per_epoch={given}. Give one that is, or leave out "
            "--steps_per_epoch."
        )
    if given or not steps:
        return given or max(batches, 1)
    # Epochs of equal length, of about the batches in the training images.
    divisors = [size for size in range(1, steps + 1) if steps % size == 0]
    return min(divisors, key=lambda size: abs(size - batches))


def epochs_of(settings, steps_per_epoch):
    """Returns the number of epochs of a run."""
    return settings.steps // steps_per_epoch if settings.steps else settings.epochs


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
    if rise < TOLD:
        return None
    return (
        f"{metric} still rose by {rise:.3f} in the last quarter of the steps: train longer, such as --steps={2 * last}."
    )
