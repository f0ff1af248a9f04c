"""The sheet of attention masks."""

import numpy as np
from PIL import Image

from tfdml.reporting import draw_attention
from tfdml.reporting.pictures.model import MASK_GAP, MASK_HEAD, MASK_SIDE

CELL = MASK_SIDE + MASK_GAP


def test_each_learner_is_bright_where_it_looks(tmp_path):
    """Two learners, four channels; in channel 2 they look at opposite halves, elsewhere they agree."""
    masks = np.full((2, 2, 6, 6, 4), 0.5, np.float32)
    masks[:, 0, :, :3, 2], masks[:, 0, :, 3:, 2] = 1.0, 0.0
    masks[:, 1, :, :3, 2], masks[:, 1, :, 3:, 2] = 0.0, 1.0
    path = tmp_path / "attention.png"
    draw_attention(np.full((2, 24, 24, 3), 100, np.uint8), masks, path)
    sheet = np.asarray(Image.open(path)).astype(int)
    part = MASK_HEAD + 2 * CELL
    assert sheet.shape == (4 * part, 3 * CELL, 3)
    # The mean over channels, followed by the channel in which learners differ most.
    for top in (0, part):
        for row in range(2):
            line = top + MASK_HEAD + row * CELL + MASK_SIDE // 2
            assert sheet[line, MASK_SIDE // 2].tolist() == [100] * 3
            left, right = (sheet[line, CELL + MASK_SIDE // 8].sum(), sheet[line, CELL + 7 * MASK_SIDE // 8].sum())
            assert left > right + 200
            left, right = (
                sheet[line, 2 * CELL + MASK_SIDE // 8].sum(),
                sheet[line, 2 * CELL + 7 * MASK_SIDE // 8].sum(),
            )
            assert right > left + 200


def test_images_that_are_not_square_keep_their_shape(tmp_path):
    masks = np.random.default_rng(0).random((1, 2, 8, 4, 4), np.float32)
    path = tmp_path / "attention.png"
    draw_attention(np.full((1, 32, 16, 3), 100, np.uint8), masks, path, channels=())
    sheet = np.asarray(Image.open(path)).astype(int)
    assert sheet.shape == (MASK_HEAD + CELL, 3 * CELL, 3)
    for left in (0, CELL, 2 * CELL):
        inside = sheet[MASK_HEAD : MASK_HEAD + MASK_SIDE, left : left + MASK_SIDE]
        assert np.all(inside[:, : MASK_SIDE // 4] == 255) and np.all(inside[:, -MASK_SIDE // 4 :] == 255)
        assert not np.any(np.all(inside[:, MASK_SIDE // 4 : -MASK_SIDE // 4] == 255, axis=2))
