"""Your own images of which pairs or triplets are known."""

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
# Draws of a pair for one of another, at most.
MOST = 1000


@register("dataset", "pairs")
def pairs(file: FilePath, data_dir: FilePath | None = None, held_out: HeldOut | None = 0.2, seed: Seed = 0) -> Dataset:
    """Your own images in a table of pairs, `a,b,same`, or of triplets, `anchor,positive,negative`; no more is known.

    A column `split`, train or test, says which are measured. Without it some are held out, whole groups of images that
    pairs connect. A column `weight`, a whole number such as that of clicks, says how often a pair trains.

    Args:
        file: the table, in UTF-8, with commas and a header; it may lie in `data_dir`.
        data_dir: folder that paths in the table are relative to. Default: the folder of the table.
        held_out: fraction of the pairs that are measured, at least, where the table does not say which.
        seed: decides which.
    """
    table = table_path(file, data_dir)
    names, parts, weights = _read(table)
    known, numbers = np.unique(np.array(names, dtype=object), return_inverse=True)
    empty = np.flatnonzero(known == "")
    numbers = numbers.reshape(len(names), 3)
    if len(empty):
        # It sorts first.
        known, numbers = known[1:], numbers - 1
    base = Path(data_dir).expanduser() if data_dir else table.parent
    images = np.array([os.path.normpath(os.path.join(base, name)) for name in known], dtype=object)
    # Images that relations connect are of one group.
    one, other = np.concatenate([numbers[numbers[:, place] != NONE][:, [0, place]] for place in (1, 2)]).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(known), len(known)))
    groups = connected_components(graph, directed=False)[1]
    tests = parts == "test" if parts is not None else _held_out(table, numbers, groups, known, held_out, seed)
    shared = np.intersect1d(numbers[tests], numbers[~tests])
    shared = known[shared[shared != NONE]]
    if len(shared):
        raise ValueError(
            f"{table} has {len(shared)} images in both splits, train and test, first {shared[0]!r}. Expected different "
            "images in both."
        )
    drawn = np.repeat(numbers[~tests], weights[~tests], axis=0)
    if not tests.any():
        raise ValueError(f"{table} has no row with the split test.")
    splits = []
    for relations in (drawn, numbers[tests]):
        labels = np.setdiff1d(relations, [NONE])
        of_images = dict(zip(labels.tolist(), groups[labels].tolist(), strict=True))
        splits.append(Split(images[labels], labels, class_groups=of_images, relations=relations.astype(np.int64)))
    train, test = splits
    return Dataset("pairs", train if len(train) else None, test, protocol="given_pairs", look_inside=True)


def _read(table):
    """Returns names `[R, 3]` of an image, of one that is the same and of one that is not, empty for none.

    And the splits `[R]`, None where the table has none, and the weights `[R]`.
    """

    def check_header(header):
        if set(header) - {SPLIT, WEIGHT} not in (set(PAIRS), set(TRIPLETS)) or len(set(header)) < len(header):
            raise ValueError(
                f"{table} has the columns {header}; expected {','.join(PAIRS)}, or {','.join(TRIPLETS)}, and perhaps "
                "split and weight."
            )

    try:
        header, rows = read_table(table, check_header)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no table {table}. Expected a CSV file with {','.join(PAIRS)}, or {','.join(TRIPLETS)}."
        ) from None
    if not rows:
        raise ValueError(f"{table} has a header and no rows.")
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
        raise ValueError(f"{table}, line {line}: expected the split train or test, received {row[SPLIT]!r}.")
    if row.get("same", "1").lower() not in TRUTHS:
        raise ValueError(f"{table}, line {line}: expected 1 or 0 in same, received {row['same']!r}.")
    weight = row.get(WEIGHT, "1")
    if not (weight.isdecimal() and len(weight) < 5 and 1 <= int(weight) <= MOST):
        raise ValueError(f"{table}, line {line}: expected a weight from 1 to {MOST}, received {weight!r}.")


def _relation(table, row, line):
    if "same" in row:
        names = (row["a"], row["b"], "") if TRUTHS[row["same"].lower()] else (row["a"], "", row["b"])
    else:
        names = tuple(row[name] for name in TRIPLETS)
    given = [os.path.normpath(name) for name in names if name]
    if len(set(given)) < len(given):
        raise ValueError(f"{table}, line {line}: {given[0]!r} is compared with itself.")
    return tuple(os.path.normpath(name) if name else "" for name in names)


def _held_out(table, numbers, groups, names, fraction, seed):
    """Booleans, which relations are measured: whole groups, at least a fraction, of both kinds where there are."""
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
            f"{table} connects its {len(names)} images to {len(order)} groups, too few to hold some out that no other "
            "pair has. Add a column split, train or test, with different images in both."
        )
    return tests
