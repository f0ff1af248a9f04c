"""The sheet of images that only one learner gets right."""

import numpy as np
from PIL import Image, ImageColor

from tfdml.evaluation.diversity import NONE_OF
from tfdml.reporting import draw_only_one_right
from tfdml.reporting.pictures.verification import FRAME, GAP, HEAD, RIGHT, SIDE, WRONG

CLASSES = NONE_OF
LABELS = np.arange(2 * CLASSES) // 2


def embeddings(lost=1):
    """Learner 0 is right everywhere; learner 1 has the second image of class 0 on the other side of all others."""
    right = np.eye(CLASSES)[LABELS]
    wrong = right.copy()
    if lost:
        wrong[0], wrong[1] = right[2] + 0.01 * right[0], -right.sum(axis=0)
        wrong /= np.linalg.norm(wrong, axis=1, keepdims=True)
    return np.concatenate([right, wrong], axis=1)


def grey(row, side):
    return np.full((side, side, 3), 2 * row, np.uint8)


def test_frames_tell_who_is_right(tmp_path):
    path = tmp_path / "sheet.png"
    assert draw_only_one_right(embeddings(), LABELS, 2, grey, path, of_each=1) == 1
    assert draw_only_one_right(embeddings(), LABELS, 2, grey, path) == 2
    sheet, cell = Image.open(path), SIDE + 2 * FRAME + GAP
    assert sheet.size == (3 * cell, HEAD + 2 * cell)
    for line in range(2):
        top = HEAD + line * cell
        frames = [sheet.getpixel((column * cell + 1, top + 1)) for column in range(3)]
        assert frames == [(255, 255, 255), ImageColor.getrgb(RIGHT), ImageColor.getrgb(WRONG)]
        inside = [sheet.getpixel((column * cell + cell // 2, top + cell // 2))[0] // 2 for column in range(3)]
        assert inside[:2] == [line, 1 - line] and LABELS[inside[2]] != 0


def test_nothing_is_drawn_where_there_are_none(tmp_path):
    assert draw_only_one_right(embeddings(lost=0), LABELS, 2, grey, tmp_path / "sheet.png") == 0
    assert not list(tmp_path.iterdir())
