"""The sampler of a run."""

from pipelines.sampling import Sampler
from tfdml import registry
from tfdml.run.experiment.length import steps_per_epoch_of
from tfdml.run.experiment.splits import held_out


def make_sampler(settings, splits):
    """The sampler of the settings, bound to the training rows.

    Args:
        settings: namespace with the flags' values.
        splits: `Splits`.
    """
    sampler = registry.create("sampler", settings.sampler)
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise ValueError(f"--sampler={settings.sampler}: {name} must be a subclass of pipelines.sampling.Sampler.")
    try:
        sampler.bind(splits.train.labels)
    except ValueError as error:
        reasons = held_out(settings, splits.dataset, splits.evaluation)
        message = f"--sampler={settings.sampler}: {error}"
        raise ValueError(" ".join([message, *reasons, *["Or hold out fewer."] * bool(reasons)])) from None
    return sampler


def sampler_of(model, sampler, experiment):
    """The sampler as the model's method wraps it, and the number of steps that make an epoch.

    Args:
        model: the model, which may not be compiled yet.
        sampler: what `make_sampler` gives.
        experiment: `Experiment`.
    """
    settings, train, replicas = experiment.settings, experiment.splits.train, experiment.strategy.num_replicas_in_sync
    wrapped = model.wrap_sampler(sampler)
    if wrapped is not sampler:
        wrapped.bind(train.labels)
    if wrapped.batch_size % replicas:
        raise ValueError(
            f"The batch of {wrapped.batch_size} images of --sampler={settings.sampler} does not split evenly "
            f"over {replicas} replicas."
        )
    return wrapped, steps_per_epoch_of(settings, len(train) // wrapped.batch_size)
