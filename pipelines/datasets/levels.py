"""Levels of classes: the categories of each row, from coarse to fine."""

import dataclasses

import numpy as np

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.split import Split

# The level of the classes themselves, which every dataset has.
CLASS = "class"


def with_levels(dataset: Dataset, names) -> Dataset:
    """Returns the dataset with the categories of each row at these levels, which have to be a tree.

    Args:
        dataset: the `Dataset`.
        names: names of levels, from coarse to fine; `class` is the classes.
    """
    if not dataset.has_classes:
        raise ValueError(f"--levels={','.join(names)}: {dataset.name} has no classes.")
    splits = {part: _split_with_levels(dataset.name, split, tuple(names)) for part, split in dataset.splits().items()}
    return dataclasses.replace(dataset, **splits)


def _split_with_levels(name, split: Split, names):
    known = {CLASS: {label: label for label in np.unique(split.labels).tolist()}, **(split.levels or {})}
    unknown = [level for level in names if level not in known]
    if unknown or len(set(names)) < len(names):
        raise ValueError(
            f"--levels={','.join(names)}: expected levels of {name}, each once, from coarse to fine; it has "
            f"{', '.join(known)}."
        )
    columns = [_numbers(split, level, known[level]) for level in names]
    for place in range(len(names) - 1):
        _check_tree(split, names[place : place + 2], columns[place : place + 2], known)
    return dataclasses.replace(split, hierarchy=np.stack(columns, axis=1), level_names=names)


def _numbers(split, level, categories):
    """The number of the category of each row."""
    missing = [label for label in np.unique(split.labels).tolist() if categories.get(label) in (None, "")]
    if missing:
        raise ValueError(
            f"--levels: {len(missing)} classes have no {level}, or several, first {_name(split, missing[0])}. Give "
            "each class one, or leave the level out."
        )
    numbers = {category: number for number, category in enumerate(sorted(set(categories.values()), key=str))}
    return np.array([numbers[categories[label]] for label in split.labels.tolist()], np.int64)


def _check_tree(split, names, columns, known):
    """Raises a ValueError where images of one category of the finer level have several of the coarser one."""
    pairs, firsts = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    twice = np.flatnonzero(np.bincount(pairs[:, 1]) > 1)
    if len(twice):
        rows = firsts[pairs[:, 1] == twice[0]]
        (finer,) = {_category(split, names[1], known, row) for row in rows}
        coarser = [str(_category(split, names[0], known, row)) for row in rows]
        raise ValueError(
            f"--levels: {names[1]} {finer!r} is in several of {names[0]}, {', '.join(coarser[:3])}, so they are no "
            "tree. Give levels from coarse to fine, each category in one of the level before it."
        )


def _category(split, level, known, row):
    label = split.labels[row].item()
    return _name(split, label) if level == CLASS else known[level][label]


def _name(split, label):
    return (split.class_names or {}).get(label, str(label))
