"""Sizes of batches that a loss is compared with a loop on."""

import pytest


def of_batches(names, sizes, tolerances=(1e-4, 1e-10)):
    """Runs a test on batches of these sizes, the first, third ... in float32 and the others in float64.

    `dtype` and `tolerance` follow the names of the numbers of a size, such as "size, classes, dim".
    """
    precisions = list(zip(("float32", "float64"), tolerances, strict=True))
    return pytest.mark.parametrize(
        f"{names}, dtype, tolerance", [(*size, *precisions[number % 2]) for number, size in enumerate(sizes)]
    )
