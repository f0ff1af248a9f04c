"""Checks that batches have the pairs that a loss learns from."""

import inspect
import logging

import numpy as np
import tensorflow as tf

from pipelines.sampling import Sampler
from tfdml import registry
from tfdml.evaluation.metrics.graded import grades
from tfdml.registry.loss_hooks import hooks_of

STEPS = 64


def check_pairs(loss, sampler, labels, batches, seed):
    """Raises if the first batches have no pair of one class, or none of two, and warns where few images have one.

    Only for losses that learn from pairs within the batch: those with proxies do without. A loss of given pairs or
    triplets needs a sampler that draws them.

    Args:
        loss: the loss; `needs_pairs` says whether it does.
        sampler: sampler bound to the labels.
        labels: `[N]` class of each training row, or `[N, C]` booleans, its labels where it has several.
        batches: `BatchSettings`.
        seed: seed of the batches.
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
            f"--loss={batches.loss} takes batches in {hooks.batch_parts} parts, whose rows belong together; received "
            f"--sampler={batches.sampler}, whose batches have {sampler.parts}. Use {others}."
        )
    if sampler.gives_relevance:
        # All are given, and no batch is without any.
        return
    rows = sampler.rows(seed, tf.range(STEPS))
    # At the end of a run a sampler has other labels than those that it was bound to.
    drawn = sampler.labels_of(rows, sampler.tables()) if sampler.gives_labels else tf.gather(labels, rows)
    counts = [np.unique(batch, return_counts=True)[1] for batch in drawn.numpy()]
    with_positive = sum(np.sum(count[count > 1]) for count in counts) / tf.size(rows).numpy()
    here = f"--sampler={batches.sampler}"
    if with_positive == 0:
        raise ValueError(
            f"None of the first {STEPS} batches of {here} has two images of a class, which --loss={batches.loss} "
            f"needs. Use {_several_per_class()}, whose batches have several images of each class."
        )
    if len(np.unique(labels)) == 1:
        logging.getLogger(__name__).warning(
            "All training images are of one class; --loss=%s needs two classes or more.", batches.loss
        )
    elif all(len(count) == 1 for count in counts):
        raise ValueError(
            f"Each of the first {STEPS} batches of {here} has images of one class only; --loss={batches.loss} needs "
            "two classes or more."
        )
    if with_positive < 0.5:
        logging.getLogger(__name__).warning(
            "Only %.1f %% of the images in batches of %s come with another one of their class, which --loss=%s needs. "
            "Batches of %s have several images of each class.",
            100 * with_positive,
            here,
            batches.loss,
            _several_per_class(),
        )


def _check_several(hooks, sampler, attributes, batches, seed):
    """Raises if a loss takes no images with several labels, or no pair of the first batches has half in common."""
    layer = hooks.make_layer()
    if layer is not None and layer.classes != 1:
        raise ValueError(
            f"--loss={batches.loss} has variables of classes, and these images have several labels. Use one on pairs, "
            "such as multi_similarity."
        )
    for rows in sampler.rows(seed, tf.range(STEPS)).numpy():
        common = grades(attributes[rows], np.arange(len(rows)))
        np.fill_diagonal(common, 0.0)
        if np.any(common >= 0.5):
            return
    raise ValueError(
        f"None of the first {STEPS} batches of --sampler={batches.sampler} has two images with half of their labels in "
        "common. Use pxk, whose classes are then the labels, in larger batches."
    )


def _several_per_class():
    return _samplers(lambda sampler: sampler.several_per_class)


def _samplers(fits):
    """Returns the names of the registered samplers for whose class the function `fits` is true."""
    classes = {name: thing for name, thing in registry.registered("sampler").items() if inspect.isclass(thing)}
    return " or ".join(name for name, each in classes.items() if issubclass(each, Sampler) and fits(each)) or "another"
