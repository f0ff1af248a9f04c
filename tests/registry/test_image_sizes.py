"""Sizes of images."""

import json

import pytest

from tfdml.registry.arguments import SIZE, Sides, sides_of


@pytest.mark.parametrize(
    "given, size, sides, text",
    [
        (224, 224, (224, 224), "224"),
        ((224, 224), 224, (224, 224), "224"),
        ((256, 128), (256, 128), (256, 128), "256x128"),
        ([1, 4096], (1, 4096), (1, 4096), "1x4096"),
    ],
)
def test_one_number_or_two(given, size, sides, text):
    read = SIZE.read(given)
    assert read == size and sides_of(read) == sides and str(read) == f"{read}" == text
    assert SIZE.read(read) == read and SIZE.read(json.loads(json.dumps(read))) == read


def test_height_comes_first():
    assert (sides_of((256, 128)).height, Sides(256, 128).width) == (256, 128)


@pytest.mark.parametrize("given", [0, 4097, 8.0, True, "8", None, (8,), (8, 8, 8), (8, 0), (8, "8"), (8, True)])
def test_no_size(given):
    with pytest.raises((ValueError, TypeError)):
        SIZE.read(given)
