"""Sizes of batches that a loss is compared with a loop on."""

import pytest


def of_batches(names, sizes, tolerances=(1e-4, 1e-10), by_day=None):
    """Runs a test on batches of these sizes, the first, third ... in float32 and the others in float64.

    `dtype` and `tolerance` follow the names of the numbers of a size, such as "size, classes, dim". Sizes after the
    first `by_day` are for the nights.
    """
    precisions = list(zip(("float32", "float64"), tolerances, strict=True))
    cases = [(*size, *precisions[number % 2]) for number, size in enumerate(sizes)]
    cases = cases[:by_day] + [pytest.param(*case, marks=pytest.mark.nightly) for case in cases[by_day or len(cases) :]]
    return pytest.mark.parametrize(f"{names}, dtype, tolerance", cases)
