"""Random meta-classes of a training set."""

from typing import Literal

import numpy as np

from tfdml.registry.arguments import Count, Seed
from tfdml.registry.fields import declared

PARTITIONS = ("classes", "images")


@declared
def random_meta_classes(labels, count: Count, *, seed: Seed, of: Literal["classes", "images"] = "classes"):
    """Partitions a training set at random into K meta-classes, Sec. 4.1 of EDMS.

    The paper's Sec. 1 allows both kinds of partition: a meta-class has "only a part of images belonging to one class,
    or images from several distinct image classes". It says nothing about sizes; here they are as even as possible.

    - `classes`: whole classes are merged, as in DREML, which the paper follows. The numbers of classes of two
      meta-classes differ by at most 1; the numbers of images may differ by more.
    - `images`: images are divided whatever their class. The numbers of images differ by at most 1. The images of a
      class mostly belong to different meta-classes, and a loss on these pushes them apart.

    Example: `meta_classes = random_meta_classes(labels, 50, seed=0)`.

    Args:
        labels: `[M]` class of each image, numbers or names. With `classes` the meta-class of a class does not depend on
            the order of images, with `images` only the number of images counts.
        count: K.
        seed: integer; another one gives another partition.
        of: `classes` or `images`.

    Returns:
        `[M]` int64 meta-class of each image, from 0 to K - 1. No meta-class is empty.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"Expected labels of shape [images], received shape {labels.shape}.")
    if of == "classes":
        classes, parts = np.unique(labels, return_inverse=True)
        size = len(classes)
    else:
        parts = np.arange(len(labels))
        size = len(labels)
    if count > size:
        instead = f"Use at most {size}" + (", or partition the images." if of == "classes" else ".")
        raise ValueError(f"{count} meta-classes need as many {of}, but the labels have {size}. {instead}")
    return (np.random.default_rng(seed).permutation(size) % count).astype(np.int64)[parts]
