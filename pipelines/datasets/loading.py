"""From a dataset's name to rows whose files are there."""

import os
import shlex
from concurrent.futures import ThreadPoolExecutor

from absl import logging

from pipelines.datasets.headers import wrong_header
from pipelines.datasets.ignoring import read_list, without
from tfdml import registry

# Files that are opened at once; on a network disk most of the time is waiting.
THREADS = 16


def load(spec, *, data_dir=None, ignore_images=None):
    """Makes a dataset, leaves out what is to be ignored, and checks that the files of the others are there.

    Args:
        spec: dataset spec, such as `cub200(cropped=True)`.
        data_dir: its folder.
        ignore_images: path of a list of images to leave out, as `python -m pipelines.check` writes it.
    """
    dataset = registry.create("dataset", spec, data_dir=data_dir)
    if ignore_images:
        names = read_list(ignore_images)
        classes = [part.num_classes for part in (dataset.train, dataset.test)]
        dataset, found = without(dataset, names, data_dir)
        lost = sum(classes) - dataset.train.num_classes - dataset.test.num_classes
        logging.info(
            "%d images are left out by --ignore_images=%s, and %d classes with all their images.",
            found,
            ignore_images,
            lost,
        )
        if found < len(set(names)):
            logging.warning("%d names in %s are no images of %s.", len(set(names)) - found, ignore_images, spec)
    for split in (dataset.train, dataset.test):
        if not split.encoded:
            _check_names(split.images)
            _check_existence(spec, data_dir, split.images)
            if dataset.look_inside:
                _check_headers(split.images)
    return dataset


def missing_files(paths):
    """Rows of the paths that are no files, found by listing each folder once, which is quicker than many questions."""
    listed, missing = {}, []
    for row, path in enumerate(paths):
        folder, name = os.path.split(path)
        if folder not in listed:
            listed[folder] = _entries(folder)
        if name not in listed[folder]:
            missing.append(row)
    return missing


def _entries(folder):
    try:
        return frozenset(os.listdir(folder or "."))
    except OSError:
        return frozenset()


def _check_names(paths):
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ValueError(f"The file name {os.fsencode(path)!r} is no UTF-8. Rename the file.") from None


def _check_existence(spec, data_dir, paths):
    missing = missing_files(paths)
    if missing:
        folder = shlex.quote(str(data_dir))
        raise FileNotFoundError(
            f"{len(missing)} of {len(paths)} listed images are missing, first {paths[missing[0]]!r}. Put them there, "
            f'or list all: python -m pipelines.check --dataset="{spec}" --data_dir={folder}, and train without them '
            "by --ignore_images."
        )


def _check_headers(paths):
    with ThreadPoolExecutor(THREADS) as threads:
        wrong = [(path, why) for path, why in zip(paths, threads.map(wrong_header, paths), strict=True) if why]
    if wrong:
        path, why = wrong[0]
        others = f" {len(wrong) - 1} more files are wrong." if len(wrong) > 1 else ""
        raise ValueError(f"{path} {why}. Replace it or remove it.{others}")
