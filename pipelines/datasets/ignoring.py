"""Lists of images to ignore: writes and reads them, and leaves the images out."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from pipelines.datasets.cache_folder import cache_folder

LIST = "bad_images.jsonl"


def list_path(out, data_dir):
    """Returns where to write a list: `out`; if empty, `data_dir`; if that is empty too, the cache folder."""
    if not (out or data_dir):
        return cache_folder() / LIST
    path = (Path(out) if out else Path(_folder(data_dir)) / LIST).absolute()
    if out and not path.parent.is_dir():
        raise ValueError(f"--out={out}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give a file, such as --out={path / LIST}.")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"Cannot write the list of bad images to {path}: the folder is read-only. Give another --out."
        )
    return path


def names_in_list(split, part, data_dir):
    """Returns the names of a split's rows in a list: paths, relative to `data_dir` if inside it, or `train#7`."""
    if split.encoded:
        return [f"{part}#{row}" for row in range(len(split))]
    folder = _folder(data_dir)
    below = folder and f"{os.path.normpath(folder)}{os.sep}"
    return [os.path.normpath(path).removeprefix(below) for path in split.images]


def write_list(path, entries):
    """Writes `(name, reason)` pairs as lines of JSON, which can hold any name, even one with line breaks."""
    lines = [json.dumps({"image": name, "reason": reason}, ensure_ascii=False) for name, reason in entries]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def read_list(path):
    """Reads the names in a list: the `image` of each line of JSON, or else the line itself."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
    except OSError as error:
        raise OSError(f"Cannot read --ignore_images={path}: {error.strerror}.") from None
    return [_name(path, number, line.rstrip("\r")) for number, line in enumerate(lines, 1) if line.strip()]


def _name(path, number, line):
    if not line.startswith("{"):
        return line
    try:
        name = json.loads(line)["image"]
        if not isinstance(name, str):
            raise ValueError
        return name
    except (ValueError, KeyError):
        raise ValueError(
            f'--ignore_images={path}, line {number}: expected {{"image": "..."}} or a path, received {line!r}.'
        ) from None


def without(dataset, names, data_dir):
    """Returns the dataset without the named images, and how many of the names were found."""
    # Absolute: a run may name its table by a relative path, and its evaluation by an absolute one.
    paths = {os.path.abspath(os.path.join(_folder(data_dir), name)) for name in names}
    names, parts, found = set(names), {}, 0
    for part, split in dataset.splits().items():
        if split.encoded:
            keep = np.array([name not in names for name in names_in_list(split, part, data_dir)], bool)
        else:
            keep = np.array([os.path.abspath(path) not in paths for path in split.images], bool)
        found += int(np.sum(~keep))
        parts[part] = split.where(keep)
    return dataclasses.replace(dataset, **parts), found


def _folder(data_dir):
    return str(Path(data_dir).expanduser()) if data_dir else ""
