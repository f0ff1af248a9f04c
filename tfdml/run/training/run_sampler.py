"""The sampler of a run, and the settings with which its batches fit the training images."""

import dataclasses
import inspect

import numpy as np

from pipelines.datasets.folder import WITHOUT_CLASSES
from pipelines.sampling import Clusters, Given, PseudoClasses, PxK, Sampler, Views, each_alone
from pipelines.stored import vector_dims
from tfdml import registry
from tfdml.methods import DivideAndConquer
from tfdml.registry.specs import written
from tfdml.run.experiment.length import Length
from tfdml.run.experiment.splits import Splits, held_out, labeled

# The batch of `auto`: 16 classes with 4 images each, or fewer classes with more images each.
CLASSES, BATCH = 16, 64
# If an epoch has more passes over the training images, --steps_per_epoch is for a larger dataset. The papers' recipes
# have up to 22 passes on the datasets that they are made for.
PASSES = 25


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
        if splits.dataset.has_classes and each_alone(splits.train.labels):
            raise ValueError(f"--sampler={spec}: {error} Each class has one image. {WITHOUT_CLASSES}") from None
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


def scaled_to_data(settings, classes=None):
    """Returns the settings that do not fit the training images, by name, with the values that do.

    Batches get no more classes, images and neighbors than there are, Divide and Conquer no more learners than have two
    classes each, `--meta_classes` and clusters no more than the labels allow, and an epoch that would draw all images
    more than 25 times becomes one pass.

    Args:
        settings: `Settings`.
        classes: names of the classes of each split, as a run has recorded them; None: the dataset chooses.
    """
    registry.import_modules(settings.run.import_modules)
    changes, seed = {}, settings.run.seed
    data = dataclasses.replace(settings.data, meta_classes=0, labels="")
    train = Splits.of(data, settings.evaluation, seed, classes=classes).train
    divided = train.num_classes if settings.data.meta_classes_of == "classes" else len(train)
    if settings.data.meta_classes > divided:
        # Half as many, as for birds and cars: of as many as there are, each would be a class.
        changes["meta_classes"] = max(2, divided // 2)
    labels = registry.create("labels", settings.data.labels) if settings.data.labels else None
    if isinstance(labels, Clusters):
        changes["labels"] = _fitted(settings.data.labels, labels, train.labels)
        labels = registry.create("labels", changes["labels"])
    train = labeled(train, settings.replace(**changes).data, seed, labels)
    if settings.batches.sampler != "auto" and train.relations is None:
        # An image of several labels is drawn for each of them.
        drawn = train.labels if train.attributes is None else np.nonzero(train.attributes.T)[0]
        changes["sampler"] = _fitted(
            settings.batches.sampler, registry.create("sampler", settings.batches.sampler), drawn
        )
        batches = len(train) // registry.create("sampler", changes["sampler"]).batch_size
        if settings.length.steps_per_epoch > PASSES * max(batches, 1):
            changes["steps_per_epoch"] = 0
    changes["method"] = _fitted_method(settings.network, train.num_classes)
    before = settings.values()
    return {name: value for name, value in changes.items() if value != before[name]}


def _fitted(spec, made, labels):
    """Returns a spec with the arguments that fit rows with these labels; `made` is what it makes."""
    fits = {name: value for name, value in made.fitted_to(labels).items() if value != getattr(made, name)}
    name, arguments = registry.parse(spec)[0]
    return written(name, {**arguments, **fits}) if fits else spec


def _fitted_method(network, classes):
    """Returns the spec of the method: if it divides the data among learners, each of them has two classes or more."""
    name, arguments = registry.parse(network.method)[0]
    method = registry.registered("method").get(name)
    if not (isinstance(method, type) and issubclass(method, DivideAndConquer)):
        return network.method
    learners = arguments.get("learners", inspect.signature(method).parameters["learners"].default)
    # With a single class in its cluster, a learner has nothing to tell it from.
    most = max(1, classes // 2)
    if learners <= most:
        return network.method
    fits = max(count for count in range(1, most + 1) if network.embedding_size % count == 0)
    return written(name, {**arguments, "learners": fits})
