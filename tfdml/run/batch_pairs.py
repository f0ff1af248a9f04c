"""Checks that batches have the pairs that a loss learns from."""

import numpy as np
import tensorflow as tf
from absl import logging

STEPS = 64
# Sampler of batches in so many parts.
GIVEN = {2: "pairs", 3: "triplets"}


def check_pairs(loss, sampler, labels, settings):
    """Raises if the first batches have no pair of one class, or none of two, and warns where few images have one.

    Only for losses that learn from pairs within the batch: those with proxies do without. A loss of given pairs or
    triplets needs a sampler that draws them.

    Args:
        loss: the loss; `needs_pairs` says whether it does.
        sampler: sampler bound to the labels.
        labels: `[N]` class of each training row.
        settings: namespace with the flags' values.
    """
    if not getattr(loss, "needs_pairs", False):
        return
    if loss.batch_parts > 1 and sampler.parts != loss.batch_parts:
        raise ValueError(
            f"--loss={settings.loss} takes only what the sampler {GIVEN[loss.batch_parts]} draws together; received "
            f"--sampler={settings.sampler}."
        )
    rows = sampler.rows(settings.seed, tf.range(STEPS)).numpy()
    counts = [np.unique(batch, return_counts=True)[1] for batch in np.asarray(labels)[rows]]
    with_positive = sum(np.sum(count[count > 1]) for count in counts) / rows.size
    here = f"--sampler={settings.sampler}"
    if with_positive == 0:
        raise ValueError(
            f"None of the first {STEPS} batches of {here} has two images of a class, which --loss={settings.loss} "
            "needs. Use pxk, which draws several images of each class."
        )
    if len(np.unique(labels)) == 1:
        logging.warning("All training images are of one class; --loss=%s needs two classes or more.", settings.loss)
    elif all(len(count) == 1 for count in counts):
        raise ValueError(
            f"Each of the first {STEPS} batches of {here} has images of one class only; --loss={settings.loss} needs "
            "two classes or more."
        )
    if with_positive < 0.5:
        logging.warning(
            "Only %.1f %% of the images in batches of %s come with another one of their class, which --loss=%s needs. "
            "pxk draws several images of each class.",
            100 * with_positive,
            here,
            settings.loss,
        )
