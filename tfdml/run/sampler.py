"""The sampler of a run."""

from pipelines.sampling import Sampler
from tfdml import registry
from tfdml.run.length import steps_per_epoch_of
from tfdml.run.splits import held_out


def make_sampler(settings, splits, replicas):
    """The sampler of the settings, bound to the training rows, and the number of steps in an epoch.

    Args:
        settings: namespace with the flags' values.
        splits: `Splits`.
        replicas: number that a batch is split over.
    """
    sampler = registry.create("sampler", settings.sampler)
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise ValueError(f"--sampler={settings.sampler}: {name} must be a subclass of pipelines.sampling.Sampler.")
    try:
        sampler.bind(splits.train.labels)
    except ValueError as error:
        reasons = held_out(settings, splits.dataset, splits.evaluation)
        told = f"--sampler={settings.sampler}: {error}"
        raise ValueError(" ".join([told, *reasons, *["Or hold out fewer."] * bool(reasons)])) from None
    if sampler.batch_size % replicas:
        raise ValueError(
            f"The batch of {sampler.batch_size} images of --sampler={settings.sampler} does not split evenly "
            f"over {replicas} replicas."
        )
    return sampler, steps_per_epoch_of(settings, len(splits.train) // sampler.batch_size)


def sampler_of(model, sampler, labels):
    """The sampler as the model's method wraps it, bound to the labels `[N]` of the training rows."""
    wrapped = model.wrap_sampler(sampler)
    if wrapped is not sampler:
        wrapped.bind(labels)
    return wrapped
