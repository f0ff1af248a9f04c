"""The sampler of a run."""

import numpy as np

from pipelines.datasets.stored_vectors import vector_dims
from pipelines.sampling import Given, PseudoClasses, PxK, Sampler, Views, each_alone
from tfdml import registry
from tfdml.run.experiment.length import Length
from tfdml.run.experiment.splits import held_out

# The batch of `auto`: 16 classes with 4 images each, or fewer classes with more images each.
CLASSES, BATCH = 16, 64


def make_sampler(spec, splits, evaluation):
    """The sampler of a spec, bound to the training rows.

    Args:
        spec: spec of the sampler; `auto`: P×K that fits the classes, views of images without classes, or given pairs.
        splits: `Splits`.
        evaluation: `EvaluationSettings`, which say how many classes do not train.
    """
    sampler = _fitting(splits) if spec == "auto" else registry.create("sampler", spec)
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise ValueError(f"--sampler={spec}: {name} must be a subclass of pipelines.sampling.Sampler.")
    if sampler.several_views and vector_dims(splits.train):
        raise ValueError(f"--sampler={spec} draws views of images, and {splits.dataset.name} has vectors. Use pxk.")
    if splits.clusters:
        sampler = PseudoClasses(sampler)
    try:
        sampler.bind_split(splits.train)
    except ValueError as error:
        if splits.train.attributes is not None:
            raise ValueError(f"--sampler={spec}: {error} Images have several labels, which are its classes.") from None
        if not splits.dataset.has_classes and not splits.clusters:
            own = type(_fitting(splits))
            fits = "views(images=64)" if own is Views else "given(count=32)"
            advice = "" if isinstance(sampler, own) else f" Use --sampler='{fits}'."
            raise ValueError(f"--sampler={spec}: {error} {splits.dataset.name} has no classes.{advice}") from None
        reasons = held_out(evaluation, splits.dataset, splits.evaluation)
        message = f"--sampler={spec}: {error}"
        raise ValueError(" ".join([message, *reasons, *["Or hold out fewer."] * bool(reasons)])) from None
    return sampler


def _fitting(splits):
    """P×K of as many classes as a batch of 64 takes with four images each, and there are; or views, or given pairs."""
    labels = splits.train.labels
    if splits.train.relations is not None:
        return Given(min(BATCH // 2, len(splits.train.known_relations)))
    if splits.train.attributes is not None:
        return _pxk(np.sum(splits.train.attributes, axis=0))
    if each_alone(labels):
        return Views(min(BATCH // 2, len(labels)))
    return _pxk(np.unique(labels, return_counts=True)[1])


def _pxk(counts):
    """P×K for classes of so many images."""
    classes = max(2, min(CLASSES, int(np.sum(counts > 1))))
    return PxK(classes, BATCH // classes)


def sampler_of(model, sampler, experiment):
    """The sampler as the model's method wraps it, and the `Length` of the run.

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
            f"The batch of {wrapped.batch_size} images of --sampler={settings.batches.sampler} does not split evenly "
            f"over {replicas} replicas."
        )
    return wrapped, Length.of(settings.length, settings.evaluation, len(train) // wrapped.batch_size)
