"""The first image that cannot be read is found, and the first class without a good one."""

import numpy as np

from pipelines.datasets import Split
from pipelines.reading.unreadable import find_unreadable, find_unreadable_class
from tests.pipelines.image_files import encoded, noise


class TestFindUnreadable:
    GOOD = encoded(noise(9, 13), "PNG")

    def test_truncated_bytes(self):
        images = np.array([self.GOOD, self.GOOD, self.GOOD[:60], b""], dtype=object)
        row, reason = find_unreadable(Split(images, np.arange(4)))
        assert row == 2 and reason and "\n" not in reason

    def test_paths(self, tmp_path):
        contents = {"good.png": self.GOOD, "cut.jpg": encoded(np.zeros((64, 64, 3)), "JPEG")[:-300], "text.png": b"no"}
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        for name in ("cut.jpg", "text.png", "absent.png"):
            paths = np.array([str(tmp_path / "good.png"), str(tmp_path / name)], dtype=object)
            row, reason = find_unreadable(Split(paths, np.arange(2)))
            assert row == 1 and len(reason) > 10

    def test_nothing_to_find(self):
        assert find_unreadable(Split(np.array([self.GOOD] * 2, dtype=object), np.arange(2))) is None

    def test_a_class_without_a_good_image(self):
        bad, labels = b"no", np.array([2, 1, 1, 2, 1, 2, 0])
        images = np.array([bad, self.GOOD, bad, bad, bad, bad, self.GOOD], dtype=object)
        rows, reason = find_unreadable_class(Split(images, labels))
        assert rows.tolist() == [0, 3, 5] and "not a JPEG" in reason
        images[5] = self.GOOD
        assert find_unreadable_class(Split(images, labels)) is None
