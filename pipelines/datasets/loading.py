"""Loads a dataset from its spec, checks its files and finds the folder for caches."""

import inspect
import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args, get_origin

import numpy as np

from pipelines.checks import wrong_header
from pipelines.dataset import SHOWN, Dataset, read_list, without
from pipelines.stored import is_remote
from tfdml import registry
from tfdml.registry.arguments import FilePath
from tfdml.registry.specs import written

# Number of files to open in parallel. On a network disk, most of the time is spent waiting.
THREADS = 16


# Other names of datasets, in lowercase without hyphens, to our names.
ELSEWHERE = {
    "cub": "cub200",
    "cub2002011": "cub200",
    "cars": "cars196",
    "stanfordcars": "cars196",
    "stanfordonlineproducts": "sop",
    "imagefolder": "folder",
}


@registry.register_short_form("dataset")
def meant_dataset(text):
    """Returns the spec of the dataset that a text means: the path of a table, file or folder, or another name."""
    path, name = text.lower(), ELSEWHERE.get(re.sub(r"[-_ ]", "", text.lower()))
    if path.endswith(".csv"):
        return f'"csv(path={text!r})"'
    if path.endswith(".tar") or ("*" in path and path.endswith(".parquet")):
        return f'"{"webdataset" if path.endswith(".tar") else "parquet"}(path={text!r}, test_classes=0.3)"'
    if path.endswith((".npz", ".parquet")):
        return f'"embeddings(path={text!r}, test_classes=0.3)"'
    if path.endswith(".npy"):
        return f"\"embeddings(path={text!r}, labels='labels.npy', test_classes=0.3)\""
    if name:
        return repr(name)
    if os.path.isdir(text):
        divided = os.path.isdir(os.path.join(text, "test"))
        return f'"{"folder" if divided else "folder(test_classes=0.3)"}" with --data_dir={text}'
    return ""


def load(
    spec: str,
    *,
    data_dir: FilePath | None = None,
    ignore_images: FilePath | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    test_only: bool = False,
) -> Dataset:
    """Creates a dataset from its spec, removes ignored images and checks that all other image files exist.

    Args:
        spec: Text. Spec of the dataset, for example `"cub200(cropped=True)"` or `"folder(test_classes=0.3)"`.
        data_dir: Folder of the dataset, or `None`. Defaults to `None`.
        ignore_images: Path of a list of images to skip, as written by `python -m pipelines.check`, or `None`. Defaults
            to `None`.
        classes: Dictionary `{"train": names, "test": names}` or `None`. The class names of an earlier run, to divide a
            dataset with random test classes in the same way. If `None`, it is divided at random. Defaults to `None`.
        test_only: Boolean. Whether only the test split is used, so that training images may be missing. Defaults to
            `False`.

    Returns:
        The `Dataset`.

    Raises:
        FileNotFoundError: If images are missing.
        ValueError: If the dataset has no training images and `test_only` is `False`, or if an image is not readable.

    Example:

    ```python
    from pipelines.datasets import load

    dataset = load("toycars(classes=8, images_per_class=2)")
    {part: (len(split), split.num_classes) for part, split in dataset.splits().items()}
    # {'train': (8, 4), 'test': (8, 4)}
    ```
    """
    dataset = registry.create("dataset", spec, data_dir=data_dir)
    if classes and dataset.undivided:
        dataset = _divided_as_before(dataset, classes, test_only, data_dir)
    if dataset.train is None and not test_only:
        raise ValueError(
            f"The dataset {spec} has only a test split, which is enough for evaluation but not for training. Put the "
            f"training images of a folder into {os.path.join(data_dir or '', 'train')}, or mark rows of a table with "
            "the split train."
        )
    if ignore_images:
        names = read_list(ignore_images)
        before = _counts(dataset)
        dataset, unknown = without(dataset, names, data_dir)
        images, classes = before - _counts(dataset)
        message = "--ignore_images=%s removes %d images, including all images of %d classes."
        logging.getLogger(__name__).info(message, ignore_images, images, classes)
        if unknown:
            message = "%d of %d names in %s are not images of %s, for example %r."
            logging.getLogger(__name__).warning(message, len(unknown), len(set(names)), ignore_images, spec, unknown[0])
    for split in [dataset.test] if test_only else dataset.splits().values():
        if not split.encoded:
            check_names(split.images)
            _check_existence(spec, data_dir, split.images)
            if dataset.look_inside:
                check_headers(split.images)
    return dataset


def from_anywhere(spec, data_dir):
    """Returns the spec with paths that do not depend on the working directory: absolute or relative to `data_dir`."""
    name, arguments = registry.parsed("dataset", spec)
    parameters = inspect.signature(registry.registered("dataset")[name]).parameters
    base = (arguments.get("data_dir") or data_dir) if "data_dir" in parameters else None

    def absolute(path):
        if isinstance(path, list | tuple):
            return tuple(map(absolute, path))
        if not path or not isinstance(path, str) or is_remote(path):
            return path
        # A table in the folder of the images stays relative, so that it is found wherever the folder is moved.
        in_base = base and Path(base, path).expanduser().is_file()
        return path if in_base else str(Path(path).expanduser().absolute())

    of_paths = [argument for argument, each in parameters.items() if _is_path(each.annotation)]
    moved = {argument: absolute(value) if argument in of_paths else value for argument, value in arguments.items()}
    return spec if moved == arguments else written(name, moved)


def _is_path(annotation):
    """Whether an argument with this annotation is a path, several paths or an optional path."""
    return os.PathLike in (annotation, get_origin(annotation)) or any(map(_is_path, get_args(annotation)))


def _counts(dataset):
    return np.sum([(len(split), split.num_classes) for split in dataset.splits().values()], axis=0)


def _divided_as_before(dataset, classes, test_only, data_dir):
    """Divides the dataset as in an earlier run; warns about new classes and raises an error for missing classes."""
    names = set(dataset.undivided.rows.class_names.values())
    for part in ("test",) if test_only else ("train", "test"):
        missing = [name for name in classes[part] if name not in names]
        if missing:
            raise ValueError(
                f"{len(missing)} of the run's {len(classes[part])} {part} classes are missing in {data_dir}: "
                f"{', '.join(missing[:SHOWN])}. Put them back. To use other images, pass another dataset, or --dataset "
                "on the command line."
            )
    new = sorted(names - {name for part in classes.values() for name in part})
    if new:
        logging.getLogger(__name__).warning(
            "%d classes were added after training started and are ignored: %s.", len(new), ", ".join(new[:SHOWN])
        )
    return dataset.divided_into(classes)


def missing_files(paths):
    """Returns the rows without a file. Each folder is listed once, which is faster than a query per file."""
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
        with os.scandir(folder or ".") as entries:
            # Pipes do not count as files, because TensorFlow would wait for them forever.
            return frozenset(entry.name for entry in entries if entry.is_file())
    except OSError:
        return frozenset()


def check_names(paths):
    """Raises an error if a path has bytes that are not UTF-8."""
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ValueError(f"The file name {os.fsencode(path)!r} is not valid UTF-8. Rename the file.") from None


def _check_existence(spec, data_dir, paths):
    missing = missing_files(paths)
    if missing:
        folder, first = shlex.quote(str(data_dir)), paths[missing[0]]
        hint = ", which is not a file" if os.path.exists(first) else ""
        raise FileNotFoundError(
            f"{len(missing)} of {len(paths)} listed images are missing, for example {first!r}{hint}. Add them. Or "
            f'train without them: list them with python -m pipelines.check --dataset="{spec}" --data_dir={folder}, and '
            "pass the list as ignore_images, or as --ignore_images on the command line."
        )


def check_headers(paths):
    """Raises an error if a file does not have the header of a readable image."""
    with ThreadPoolExecutor(THREADS) as threads:
        wrong = [(path, why) for path, why in zip(paths, threads.map(wrong_header, paths), strict=True) if why]
    if wrong:
        path, why = wrong[0]
        others = f" {len(wrong) - 1} more files cannot be used." if len(wrong) > 1 else ""
        raise ValueError(f"{path} {why}. Replace it or remove it.{others}")


def cache_folder(folder=None):
    """Returns `folder`, or `tfdml` in `$XDG_CACHE_HOME` or `~/.cache` if it is empty."""
    return Path(folder or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/tfdml").expanduser()
