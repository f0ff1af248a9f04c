"""Your own images with explicit pairs or triplets."""

import os
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipelines.dataset import NONE, Dataset, HeldOut, Split
from pipelines.labels import SPLITS, TRUTHS, place_by_name, read_table, table_path
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed

PAIRS, TRIPLETS, SPLIT, WEIGHT = ("a", "b", "same"), ("anchor", "positive", "negative"), "split", "weight"
# Largest weight of a pair, relative to a pair with weight 1.
MOST = 1000


@register("dataset", "pairs")
def pairs(file: FilePath, data_dir: FilePath | None = None, held_out: HeldOut | None = 0.2, seed: Seed = 0) -> Dataset:
    """Loads your own images from a CSV table with pairs (`a,b,same`) or triplets (`anchor,positive,negative`).

    Use it if you have no classes. An optional column `split` (train or test) specifies the pairs for evaluation.
    Without it, some pairs are held out, always with all images that pairs connect to them. An optional column `weight`,
    an integer such as a number of clicks, specifies how often a pair is drawn in training.

    Args:
        file: Path of the table, in UTF-8, with commas and a header. It may be relative to `data_dir`.
        data_dir: Folder to which the paths in the table are relative. If `None`, it is the folder of the table.
            Defaults to `None`.
        held_out: Float. Minimum fraction of the pairs to evaluate on, for a table without the column `split`. Defaults
            to `0.2`.
        seed: Integer. Determines which pairs are held out. Defaults to `0`.
    """
    table = table_path(file, data_dir)
    names, parts, weights = _read(table)
    known, numbers = np.unique(np.array(names, dtype=object), return_inverse=True)
    empty = np.flatnonzero(known == "")
    numbers = numbers.reshape(len(names), 3)
    if len(empty):
        # The empty name of missing images is sorted first.
        known, numbers = known[1:], numbers - 1
    base = Path(data_dir).expanduser() if data_dir else table.parent
    images = np.array([os.path.normpath(os.path.join(base, name)) for name in known], dtype=object)
    # Images that are connected by relations belong to one group.
    one, other = np.concatenate([numbers[numbers[:, place] != NONE][:, [0, place]] for place in (1, 2)]).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(known), len(known)))
    groups = connected_components(graph, directed=False)[1]
    tests = parts == "test" if parts is not None else _held_out(table, numbers, groups, known, held_out, seed)
    shared = np.intersect1d(numbers[tests], numbers[~tests])
    shared = known[shared[shared != NONE]]
    if len(shared):
        raise ValueError(
            f"{table} has {len(shared)} images in both splits, train and test, for example {shared[0]!r}. Expected "
            "different images in train and test."
        )
    drawn = np.repeat(numbers[~tests], weights[~tests], axis=0)
    if not tests.any():
        raise ValueError(f"{table} has no test pairs. Expected rows with the split test.")
    splits = []
    for relations in (drawn, numbers[tests]):
        labels = np.setdiff1d(relations, [NONE])
        of_images = dict(zip(labels.tolist(), groups[labels].tolist(), strict=True))
        splits.append(Split(images[labels], labels, class_groups=of_images, relations=relations.astype(np.int64)))
    train, test = splits
    return Dataset("pairs", train if len(train) else None, test, protocol="given_pairs", look_inside=True)


def _read(table):
    """Returns the relations of the table, their splits `[R]` (None without the column) and their weights `[R]`.

    A relation is three names: an image, a similar image and a different image, with an empty name for a missing one.
    """

    def check_header(header):
        if set(header) - {SPLIT, WEIGHT} not in (set(PAIRS), set(TRIPLETS)) or len(set(header)) < len(header):
            raise ValueError(
                f"{table} has the wrong columns. Expected {','.join(PAIRS)} or {','.join(TRIPLETS)}, and optionally "
                f"split and weight. Received: {header}."
            )

    try:
        header, rows = read_table(table, check_header)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The table {table} does not exist. Expected a CSV file with the columns {','.join(PAIRS)} or "
            f"{','.join(TRIPLETS)}."
        ) from None
    if not rows:
        raise ValueError(f"{table} has a header but no rows. Expected one row per pair or triplet.")
    for row, line in rows:
        _check_row(table, row, line)
    names = [_relation(table, row, line) for row, line in rows]
    weights = np.array([int(row.get(WEIGHT, 1)) for row, _ in rows])
    return names, np.array([row[SPLIT] for row, _ in rows]) if SPLIT in header else None, weights


def _check_row(table, row, line):
    empty = [name for name, text in row.items() if not text]
    if empty:
        raise ValueError(f"{table}, line {line}: {empty[0]} is empty.")
    if row.get(SPLIT, "test") not in SPLITS:
        raise ValueError(f"{table}, line {line}: split must be train or test. Received: {row[SPLIT]!r}.")
    if row.get("same", "1").lower() not in TRUTHS:
        raise ValueError(f"{table}, line {line}: same must be 1 or 0. Received: {row['same']!r}.")
    weight = row.get(WEIGHT, "1")
    if not (weight.isdecimal() and len(weight) < 5 and 1 <= int(weight) <= MOST):
        raise ValueError(f"{table}, line {line}: weight must be an integer from 1 to {MOST}. Received: {weight!r}.")


def _relation(table, row, line):
    if "same" in row:
        names = (row["a"], row["b"], "") if TRUTHS[row["same"].lower()] else (row["a"], "", row["b"])
    else:
        names = tuple(row[name] for name in TRIPLETS)
    given = [os.path.normpath(name) for name in names if name]
    if len(set(given)) < len(given):
        raise ValueError(f"{table}, line {line}: {given[0]!r} is compared with itself. Expected different images.")
    return tuple(os.path.normpath(name) if name else "" for name in names)


def _held_out(table, numbers, groups, names, fraction, seed):
    """Returns a mask of the relations to hold out: whole groups, at least a fraction, of both kinds if possible."""
    order = sorted(range(groups.max() + 1), key=lambda group: place_by_name(names[groups == group][0], seed))
    of_relation, tests = groups[numbers[:, 0]], np.zeros(len(numbers), bool)
    kinds = np.any(numbers[:, 1:] != NONE, axis=0)
    for group in order:
        if tests.sum() >= fraction * len(numbers) and np.array_equal(
            np.any(numbers[tests][:, 1:] != NONE, axis=0), kinds
        ):
            break
        tests |= of_relation == group
    if tests.all():
        raise ValueError(
            f"The pairs in {table} connect its {len(names)} images to {len(order)} groups, which are too few to hold "
            "some out. Add a column split with train or test, with different images in both."
        )
    return tests
