"""The sheet of a batch."""

import numpy as np
from PIL import Image

from tfdml.reporting import draw_batch
from tfdml.reporting.sheets import BAR, GAP, MARGIN

NAMES = {0: "kiwi", 7: "a_bird_with_a_name_that_is_much_too_long_for_what_is_under_one_image_on_the_sheet"}


def sheet(tmp_path, labels, side=24, title="title", **options):
    pictures = np.stack([np.full((side, side, 3), (10 * place, 20, 250), np.uint8) for place in range(len(labels))])
    draw_batch(pictures, np.array(labels), NAMES, tmp_path / "batch.png", title=title, **options)
    return np.asarray(Image.open(tmp_path / "batch.png").convert("RGB")).astype(int)


def places(pixels, count, side):
    """Top left corners of the images, each of which has a single color."""
    corners = []
    for place in range(count):
        rows, columns = np.nonzero(np.all(pixels == (10 * place, 20, 250), axis=2))
        assert len(rows) == side * side
        corners.append((rows.min(), columns.min()))
    return np.array(corners)


def test_images_stand_in_order_and_classes_keep_to_their_row(tmp_path):
    labels = np.repeat([3, 7, 0, 9], 4)
    corners = places(sheet(tmp_path, labels), 16, 96)
    columns = len(set(corners[:, 1]))
    assert columns % 4 == 0
    assert np.array_equal(np.lexsort((corners[:, 1], corners[:, 0])), np.arange(16))
    assert np.all(np.diff(np.unique(corners[:, 1])) == 96 + GAP)
    assert corners.min() == corners[0, 1] == MARGIN


def test_each_image_has_its_label_and_the_colour_of_its_class_underneath(tmp_path):
    labels = [7, 0, 7, 5, 0]
    pixels = sheet(tmp_path, labels)
    corners = places(pixels, 5, 96)
    bars = [tuple(pixels[top + 96, left]) for top, left in corners]
    assert len(set(bars)) == 3 and bars[0] == bars[2] and bars[1] == bars[4]
    below = [pixels[top + 96 + BAR : top + 96 + 40, left : left + 96] for top, left in corners]
    assert np.array_equal(below[0], below[2]) and np.array_equal(below[1], below[4])
    assert not np.array_equal(below[0], below[1]) and not np.array_equal(below[1], below[3])
    # The long name does not extend into the space between images.
    for top, left in corners:
        assert np.all(pixels[top : top + 150, left + 96 : left + 96 + GAP - 2] == 255)


def test_sizes(tmp_path):
    for side, shown in ((8, 96), (48, 96), (100, 100), (224, 224), (300, 224)):
        places(sheet(tmp_path, [0], side), 1, shown)


def test_images_that_are_not_square_lie_in_the_middle_of_one(tmp_path):
    for shape, shown in (((24, 12), (96, 48)), ((12, 24), (48, 96)), ((300, 150), (224, 112))):
        draw_batch(np.full((1, *shape, 3), (10, 20, 250), np.uint8), np.zeros(1), {}, tmp_path / "batch.png", title="")
        pixels = np.asarray(Image.open(tmp_path / "batch.png").convert("RGB"))
        rows, columns = (np.unique(each) for each in np.nonzero(np.all(pixels == (10, 20, 250), axis=2)))
        assert (len(rows), len(columns)) == shown
        assert columns[0] - MARGIN == (max(shown) - shown[1]) // 2


def test_a_long_title_makes_room(tmp_path):
    short, long = (sheet(tmp_path, [0, 7], title=title) for title in ("short", "a long one " * 40))
    assert short.shape[1] == long.shape[1] and long.shape[0] > short.shape[0]
    assert places(long, 2, 96)[0, 0] > places(short, 2, 96)[0, 0]
