"""Returns the sampler of a run, after a check that its batches contain the pairs that the loss needs."""

import dataclasses
import inspect
import logging

import numpy as np

from pipelines.datasets.folder import WITHOUT_CLASSES
from pipelines.operations import tf
from pipelines.sampling import Clusters, Given, PseudoClasses, PxK, Sampler, Views, each_alone
from pipelines.sampling.corpus import TeacherError
from pipelines.stored import vector_dims
from tfdml import registry
from tfdml.evaluation.metrics.graded import grades
from tfdml.methods import DivideAndConquer
from tfdml.registry.loss_hooks import hooks_of
from tfdml.registry.specs import written
from tfdml.run.experiment.length import Length
from tfdml.run.experiment.splits import Splits, held_out, labeled

# The batch of `auto`: 16 classes with 4 images each, or fewer classes with more images each.
CLASSES, BATCH = 16, 64
# With more passes over the training images per epoch, --steps_per_epoch was meant for a larger dataset. The paper
# configurations have up to 22 passes on their own datasets.
PASSES = 25


def make_sampler(spec, splits, evaluation):
    """Returns the sampler of a spec, bound to the training rows of `Splits`.

    `auto` is PK sampling that fits the classes, views if there are no classes, or the explicit pairs of the dataset.
    """
    sampler = _fitting(splits) if spec == "auto" else registry.create("sampler", spec)
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise ValueError(f"--sampler={spec}: {name} must be a subclass of pipelines.sampling.Sampler.")
    if sampler.several_views and vector_dims(splits.train):
        raise ValueError(
            f"--sampler={spec} draws views of images, but {splits.dataset.name} contains feature vectors. Use pxk."
        )
    if splits.clusters:
        sampler = PseudoClasses(sampler)
    try:
        sampler.bind_split(splits.train)
    except TeacherError as error:
        raise ValueError(f"--sampler={spec}: {error}") from None
    except ValueError as error:
        if splits.train.attributes is not None:
            reasons = ["The images are multi-label, and each label counts as a class."]
        elif not splits.dataset.has_classes and not splits.clusters:
            fitting = type(_fitting(splits))
            reasons = [f"{splits.dataset.name} has no classes."]
            if not isinstance(sampler, fitting):
                reasons.append(f"Use --sampler='{'views(images=64)' if fitting is Views else 'given(count=32)'}'.")
        elif splits.dataset.has_classes and each_alone(splits.train.labels):
            reasons = [f"Each class has a single image. {WITHOUT_CLASSES}"]
        else:
            reasons = held_out(evaluation, splits.dataset, splits.evaluation)
            reasons += ["Or hold out fewer classes."] * bool(reasons)
        raise ValueError(" ".join([f"--sampler={spec}: {error}", *reasons])) from None
    return sampler


def _fitting(splits):
    """Returns PK sampling with 64 images per batch, 4 per class if possible, or views, or explicit pairs."""
    labels = splits.train.labels
    if splits.train.relations is not None:
        return Given(min(BATCH // 2, len(splits.train.known_relations)))
    if splits.train.attributes is not None:
        return _pxk(np.sum(splits.train.attributes, axis=0))
    if each_alone(labels):
        return Views(min(BATCH // 2, len(labels)))
    return _pxk(np.unique(labels, return_counts=True)[1])


def _pxk(counts):
    classes = max(2, min(CLASSES, int(np.sum(counts > 1))))
    return PxK(classes, BATCH // classes)


def sampler_of(model, sampler, experiment):
    """Returns the sampler of `make_sampler` as the method wraps it, and the `Length` of the run."""
    settings, train, replicas = experiment.settings, experiment.splits.train, experiment.strategy.num_replicas_in_sync
    wrapped = model.wrap_sampler(sampler)
    if wrapped is not sampler:
        wrapped.bind(train.labels)
    if wrapped.batch_size % replicas:
        raise ValueError(
            f"The batch of {wrapped.batch_size} images of --sampler={settings.batches.sampler} does not split evenly "
            f"over {replicas} replicas. Use a batch size that is a multiple of {replicas}."
        )
    return wrapped, Length.of(settings.length, settings.evaluation, len(train) // wrapped.batch_size)


def scaled_to_data(settings, classes=None):
    """Returns the names of settings that do not fit the training images, with values that do.

    Batches get no more classes, images and neighbors than there are; with Divide and Conquer, each learner has at least
    two classes; `--meta_classes` and clusters are limited by the labels; and an epoch with more than 25 passes over all
    images becomes one pass. `classes` are the recorded classes of each split, or None to let the dataset choose.
    """
    registry.import_modules(settings.run.import_modules)
    changes, seed = {}, settings.run.seed
    data = dataclasses.replace(settings.data, meta_classes=0, labels="")
    train = Splits.of(data, settings.evaluation, seed, classes=classes).train
    divided = train.num_classes if settings.data.meta_classes_of == "classes" else len(train)
    if settings.data.meta_classes > divided:
        # Half of them, as for birds and cars: with all of them, each class would be its own meta-class.
        changes["meta_classes"] = max(2, divided // 2)
    labels = registry.create("labels", settings.data.labels) if settings.data.labels else None
    if isinstance(labels, Clusters):
        changes["labels"] = _fitted(settings.data.labels, labels, train.labels)
        labels = registry.create("labels", changes["labels"])
    train = labeled(train, settings.replace(**changes).data, seed, labels)
    if settings.batches.sampler != "auto" and train.relations is None:
        # A multi-label image is drawn for each of its labels.
        drawn = train.labels if train.attributes is None else np.nonzero(train.attributes.T)[0]
        spec = settings.batches.sampler
        changes["sampler"] = _fitted(spec, registry.create("sampler", spec), drawn)
        batches = len(train) // registry.create("sampler", changes["sampler"]).batch_size
        if settings.length.steps_per_epoch > PASSES * max(batches, 1):
            changes["steps_per_epoch"] = 0
    changes["method"] = _fitted_method(settings.network, train.num_classes)
    before = settings.values()
    return {name: value for name, value in changes.items() if value != before[name]}


def _fitted(spec, made, labels):
    """Returns a spec with arguments that fit rows with these labels; `made` is the object of the spec."""
    fits = {name: value for name, value in made.fitted_to(labels).items() if value != getattr(made, name)}
    name, arguments = registry.parse(spec)[0]
    return written(name, {**arguments, **fits}) if fits else spec


def _fitted_method(network, classes):
    """Returns the spec of the method. If it divides the data, each learner has at least two classes."""
    name, arguments = registry.parse(network.method)[0]
    method = registry.registered("method").get(name)
    if not (isinstance(method, type) and issubclass(method, DivideAndConquer)):
        return network.method
    learners = arguments.get("learners", inspect.signature(method).parameters["learners"].default)
    # A learner cannot learn from a cluster with a single class.
    most = max(1, classes // 2)
    if learners <= most:
        return network.method
    fits = max(count for count in range(1, most + 1) if network.embedding_size % count == 0)
    return written(name, {**arguments, "learners": fits})


STEPS = 64


def check_pairs(loss, sampler, labels, batches, seed):
    """Raises a ValueError if the first batches have no positive or no negative pairs; warns if they have few.

    This only applies to losses that learn from pairs within the batch, not to proxy-based losses. A loss for explicit
    pairs or triplets needs a sampler that draws them. `labels` are class labels `[N]` of the training rows, or booleans
    `[N, C]` for multi-label images.
    """
    hooks = hooks_of(loss)
    if np.ndim(labels) == 2:
        _check_several(hooks, sampler, labels, batches, seed)
        return
    if not hooks.needs_pairs:
        return
    if hooks.batch_parts > 1 and sampler.parts != hooks.batch_parts:
        others = _samplers(lambda sampler: sampler.parts == hooks.batch_parts)
        raise ValueError(
            f"--loss={batches.loss} needs batches with {hooks.batch_parts} parts, such as the two sides of explicit "
            f"pairs, but batches of --sampler={batches.sampler} have {sampler.parts}. Use {others}."
        )
    if sampler.targets == "relevance":
        # Every batch consists of explicit pairs.
        return
    rows = sampler.rows(seed, tf.range(STEPS))
    # At the end of a run, a sampler may have other labels than those that it was bound to.
    drawn = sampler.labels_of(rows, sampler.tables()) if sampler.targets == "labels" else tf.gather(labels, rows)
    counts = [np.unique(batch, return_counts=True)[1] for batch in drawn.numpy()]
    with_positive = sum(np.sum(count[count > 1]) for count in counts) / tf.size(rows).numpy()
    here, several = f"--sampler={batches.sampler}", _samplers(lambda sampler: sampler.several_per_class)
    if with_positive == 0:
        raise ValueError(
            f"None of the first {STEPS} batches of {here} has two images of a class, which --loss={batches.loss} "
            f"needs. Use {several}, which draw several images per class."
        )
    if len(np.unique(labels)) == 1:
        message = "All training images have the same class, but --loss=%s needs at least two classes."
        logging.getLogger(__name__).warning(message, batches.loss)
    elif all(len(count) == 1 for count in counts):
        raise ValueError(
            f"Each of the first {STEPS} batches of {here} has images of a single class, but --loss={batches.loss} "
            "needs at least two classes per batch."
        )
    if with_positive < 0.5:
        message = (
            "Only %.1f%% of the images in batches of %s have another image of their class in the batch, which "
            "--loss=%s needs. Use %s, which draw several images per class."
        )
        logging.getLogger(__name__).warning(message, 100 * with_positive, here, batches.loss, several)


def _check_several(hooks, sampler, attributes, batches, seed):
    """Raises a ValueError if a loss does not support multi-label images, or if no batch has positive pairs."""
    layer = hooks.make_layer()
    if layer is not None and layer.classes != 1:
        raise ValueError(
            f"--loss={batches.loss} has one variable per class, but these images are multi-label. Use a pair-based "
            "loss, such as multi_similarity."
        )
    for rows in sampler.rows(seed, tf.range(STEPS)).numpy():
        common = grades(attributes[rows], np.arange(len(rows)))
        np.fill_diagonal(common, 0.0)
        if np.any(common >= 0.5):
            return
    raise ValueError(
        f"None of the first {STEPS} batches of --sampler={batches.sampler} has two images with half of their labels in "
        "common. Use pxk, which treats each label as a class, with larger batches."
    )


def _samplers(fits):
    """Returns the names of the registered samplers for which `fits` returns True."""
    things = sorted(registry.registered("sampler").items())
    classes = {name: thing for name, thing in things if inspect.isclass(thing)}
    return " or ".join(name for name, each in classes.items() if issubclass(each, Sampler) and fits(each)) or "another"
