"""Designs of toy cars in groups: a body type is a group, and its classes differ in parts of its own."""

import math

import numpy as np

from pipelines.datasets.toycars_drawing import PARTS

# The parts that tell the classes of a body type apart; its other parts vary from picture to picture.
DECIDING_PARTS = {
    "sedan": ("wheels", "roof"),
    "hatchback": ("taillight", "decal"),
    "wagon": ("wheels", "decal"),
    "suv": ("headlight", "taillight", "bumper"),
    "pickup": ("roof", "decal"),
    "van": ("roof", "windows"),
    "coupe": ("wheels", "windows"),
    "bus": ("windows", "decal"),
}
MOST_CLASSES = len(DECIDING_PARTS) * min(
    math.prod(len(PARTS[part]) for part in parts) for parts in DECIDING_PARTS.values()
)


def grouped_designs(make, classes, seed):
    """Draws the designs of classes 0, 1, ..., equally many of each body type; in each half a type's are side by side.

    Args:
        make: function that creates a design from its `body` and parts by name.
        classes: number of designs, at most `MOST_CLASSES`.
        seed: decides which.

    Returns:
        List of designs whose parts that vary are None.
    """
    rng = np.random.default_rng(seed)
    rounds = math.ceil(classes / len(DECIDING_PARTS))
    of_body = {body: _combinations(parts, rounds, rng) for body, parts in DECIDING_PARTS.items()}
    order = [(body, number) for number in range(rounds) for body in rng.permutation(list(DECIDING_PARTS)).tolist()]
    halves = order[: classes // 2], order[classes // 2 : classes]
    bodies = list(DECIDING_PARTS)
    ordered = [drawn for half in halves for drawn in sorted(half, key=lambda drawn: (bodies.index(drawn[0]), drawn[1]))]
    return [make(body=body, **{**dict.fromkeys(PARTS), **of_body[body][number]}) for body, number in ordered]


def completed(design, rng):
    """Returns the design with random kinds of the parts that vary; the same design if none does."""
    varying = [part for part in PARTS if getattr(design, part) is None]
    drawn = {part: str(rng.choice(list(PARTS[part]))) for part in varying}
    return type(design)(*[drawn.get(part, kind) for part, kind in zip(("body", *PARTS), design, strict=True)])


def _combinations(parts, count, rng):
    """Draws different combinations of kinds of these parts, `[{part: kind}, ...]`."""
    counts = [len(PARTS[part]) for part in parts]
    numbers = rng.choice(math.prod(counts), count, replace=False)
    kinds = np.stack(np.unravel_index(numbers, counts), axis=1)
    return [{part: list(PARTS[part])[kind] for part, kind in zip(parts, row, strict=True)} for row in kinds.tolist()]
