"""Your own images without classes, in nested folders."""

import os
from pathlib import Path

import numpy as np

from pipelines.dataset import DataDir, Dataset, HeldOut, Split
from pipelines.datasets.folder import ENDINGS, existing_folder, is_other_image, tell_of_others
from pipelines.labels import place_by_name, with_second_views
from tfdml.registry import register
from tfdml.registry.arguments import Seed


def check_links(root):
    """Raises a ValueError if a link below a folder leads to a parent of the link, because the walk would not end."""
    for folder, below, _ in os.walk(root, followlinks=True):
        # Most folders have no links, so their real path is not needed.
        links = [path for name in below if os.path.islink(path := os.path.join(folder, name))]
        passed = [Path(folder), *Path(folder).parents] if links else []
        # The way to this folder may lead through other links.
        passed = [os.path.realpath(each) for each in passed if each.is_relative_to(root)]
        for link in links:
            target = os.path.realpath(link)
            if any(os.path.commonpath([each, target]) == target for each in passed):
                raise ValueError(
                    f"{link} is a link to {target}, which contains the link, so its images would be found again and "
                    "again. Remove the link."
                )


METRICS = ("neighbors_kept", "alignment", "uniformity", "effective_rank")
# Each held-out image needs other held-out images as neighbors.
FEWEST = 3


@register("dataset", "photos")
def photos(data_dir: DataDir, held_out: HeldOut = 0.1, seed: Seed = 0) -> Dataset:
    """Loads your own images without classes, in nested folders, for self-supervised learning.

    Use it with the sampler `views`, because the only similar images are two augmented views of one image. Some images
    are held out for evaluation in two views: the whole image and a part of it.

    Args:
        data_dir: Folder with your images, at any depth.
        held_out: Float. Fraction of the images to hold out. Defaults to `0.1`.
        seed: Integer. Determines which images are held out. Defaults to `0`.
    """
    root = existing_folder("photos", data_dir, "a folder with your images, at any depth", "*.jpg, at any depth")
    check_links(root)
    names = images_below(root)
    count = max(FEWEST, round(len(names) * held_out))
    if len(names) < 2 * FEWEST or count >= len(names):
        raise ValueError(
            f"{root} has too few images for held_out={held_out}. Expected at least {FEWEST} images to evaluate on and "
            f"{FEWEST} to train on. Received: {len(names)} images with one of the extensions {', '.join(ENDINGS)}."
        )
    held = set(sorted(names, key=lambda name: place_by_name(name, seed))[:count])
    rows = Split(np.array([f"{root}/{name}" for name in names], dtype=object), np.arange(len(names)))
    tests = np.array([name in held for name in names])
    train, test = rows.where(~tests), with_second_views(rows.where(tests))
    protocol = f"self_retrieval(metrics={METRICS})"
    return Dataset("photos", train, test, protocol=protocol, look_inside=True, measured_as=with_second_views)


def images_below(root):
    """Returns the sorted names of images, relative to a folder, without names that start with a dot."""
    images_found, others = [], []
    for folder, below, files in os.walk(root, followlinks=True):
        below[:] = sorted(name for name in below if name[0] != ".")
        base = os.path.relpath(folder, root)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(base, name))
            if name[0] != "." and name.lower().endswith(ENDINGS):
                images_found.append(path)
            elif name[0] != "." and is_other_image(root / path):
                others.append(root / path)
    tell_of_others(others)
    return images_found
