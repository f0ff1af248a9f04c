"""Fits settings to the dataset that is there, so that a paper's recipe runs on a few classes of few images."""

import dataclasses
import inspect

import numpy as np

from pipelines.sampling import Clusters
from tfdml import registry
from tfdml.methods import DivideAndConquer
from tfdml.registry.specs import written
from tfdml.run.experiment.splits import Splits, labeled

# If an epoch has more passes over the training images, --steps_per_epoch is for a larger dataset. The papers' recipes
# have up to 22 passes on the datasets that they are made for.
PASSES = 25


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
