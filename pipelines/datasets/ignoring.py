"""Lists of images to ignore: writes and reads them, and leaves the images out."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from tfdml.files.checked import read_bytes

LIST = "bad_images.jsonl"


def list_path(out, data_dir):
    """Returns where to write a list: `out`; if empty, in `data_dir`; if that is empty too, in the working directory."""
    path = (Path(out) if out else Path(_folder(data_dir)) / LIST).absolute()
    if out and not path.parent.is_dir():
        raise ValueError(f"--out={out}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give a file, such as --out={path / LIST}.")
    if not out and path.is_symlink():
        raise ValueError(f"{path} is a link, perhaps out of the folder of the data. Remove it, or give --out.")
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
    """Reads the names in a list: the `image` of each line of JSON, or else the line without spaces around it."""
    try:
        lines = read_bytes(path).decode("utf-8-sig", errors="surrogateescape").split("\n")
    except OSError as error:
        raise OSError(f"Cannot read --ignore_images={path}: {error.strerror or error}.") from None
    return [_name(path, number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _name(path, number, line):
    if not line.startswith("{"):
        return line
    try:
        name = json.loads(line)["image"]
        if not isinstance(name, str):
            raise ValueError
        return name
    except (ValueError, KeyError, RecursionError):
        raise ValueError(
            f'--ignore_images={path}, line {number}: expected {{"image": "..."}} or a path, received {line!r}.'
        ) from None


def without(dataset, names, data_dir):
    """Returns the dataset without the named images, and the names that no image has, sorted."""
    # Absolute: a run may name its table by a relative path, and its evaluation by an absolute one.
    paths = {name: os.path.abspath(os.path.join(_folder(data_dir), name)) for name in names}
    parts, left_out = {}, set()
    for part, split in dataset.splits().items():
        if split.encoded:
            found, ignored = names_in_list(split, part, data_dir), set(paths)
        else:
            found, ignored = map(os.path.abspath, split.images), set(paths.values())
        found = np.array(list(found), object)
        keep = np.array([each not in ignored for each in found], bool)
        left_out.update(found[~keep])
        parts[part] = split.where(keep)
    unknown = sorted(name for name, path in paths.items() if not left_out & {name, path})
    return dataclasses.replace(dataset, **parts), unknown


def _folder(data_dir):
    return str(Path(data_dir).expanduser()) if data_dir else ""
