"""Which places make a query and its neighbors similar, in few bytes: the page draws it over the pictures."""

import base64
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image

# Places along a side at most; those of larger feature maps are averaged.
MOST_PLACES = 16


class Places(NamedTuple):
    """Similarity maps of a gallery.

    Args:
        maps: row of a query to a list of `SimilarityMap`, of it and each of its neighbors.
        seen: function of an image's height and width that returns left, top, right and bottom of the part that the
            network sees, as fractions.
    """

    maps: dict
    seen: Callable

    def grid(self):
        """The height and the width of all maps."""
        return list(_fewer(next(each.of_a for maps in self.maps.values() for each in maps)).shape)

    def seen_of(self, image):
        """The part of an image `[H, W, 3]` that the network sees."""
        return [round(edge, 4) for edge in self.seen(*image.shape[:2])]

    def of_query(self, row):
        """A text for each neighbor of a query: base64 of a byte for each place of the query, and of the neighbor.

        The byte is 128 where the share is 0, and 1 or 255 where it is largest.
        """
        return [_text(*(_fewer(shares) for shares in (each.of_a, each.of_b))) for each in self.maps[row]]


def _fewer(shares):
    height, width = (min(side, MOST_PLACES) for side in shares.shape)
    return np.asarray(Image.fromarray(shares.astype(np.float32)).resize((width, height), Image.Resampling.BOX))


def _text(*grids):
    shares = np.stack(grids)
    largest = max(np.abs(shares).max(), 1e-12)
    return base64.b64encode(np.round(128 + 127 * shares / largest).astype(np.uint8).tobytes()).decode()
