"""The similarities of all pairs of a text and an image, on which a threshold for text queries is fitted."""

import dataclasses
import functools
from typing import Self

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors
from tfdml.evaluation.verification.pairs import PairCounts

# Maximum numbers of texts and of images that are compared.
MOST = 4096


@dataclasses.dataclass(frozen=True)
class TextPairs:
    """All pairs of a text and an image. Those that belong together are positive, all others negative.

    Args:
        scores: `[M, N]` cosines of texts and images.
        same: `[M, N]` booleans: whether a text belongs to an image.
        of_texts: `[M]` integer classes of texts, from which bootstrap resamples draw.
    """

    scores: np.ndarray
    same: np.ndarray
    of_texts: np.ndarray

    @classmethod
    def of(cls, images: np.ndarray, texts: np.ndarray, pairs: np.ndarray, labels: np.ndarray, seed: int = 0) -> Self:
        """Creates the pairs from embeddings.

        If there are more than `MOST` images, or texts of these images, a random sample of them is compared.

        Args:
            images: `[N, d]` embeddings of images.
            texts: `[M, d]` embeddings of texts.
            pairs: `[P, 2]` integers: the row of an image and the row of a text that belongs to it.
            labels: `[N]` integer classes of images. A text has the class of its first image.
            seed: Integer. Seed of the sample.
        """
        random, pairs = np.random.default_rng(seed), np.asarray(pairs)
        classes = classes_of_texts(pairs, labels)
        rows = _sample(random, pairs[:, 0])
        pairs = pairs[np.isin(pairs[:, 0], rows)]
        columns = _sample(random, pairs[:, 1])
        pairs = pairs[np.isin(pairs[:, 1], columns)]
        same = np.zeros((len(columns), len(rows)), bool)
        same[np.searchsorted(columns, pairs[:, 1]), np.searchsorted(rows, pairs[:, 0])] = True
        chosen = np.asarray(texts)[columns], np.asarray(images)[rows]
        texts, images = (ExactVectors.of(each).vectors.astype(np.float64) for each in chosen)
        return cls(texts @ images.T, same, np.unique(classes[columns], return_inverse=True)[1])

    @functools.cached_property
    def counts(self) -> PairCounts:
        """The `PairCounts` of all pairs."""
        return PairCounts.of_scores(self.scores.ravel(), self.same.ravel(), TIE)

    @property
    def classes(self) -> np.ndarray:
        """The classes of texts, ascending."""
        return np.unique(self.of_texts)

    def of_classes(self, thresholds: np.ndarray) -> np.ndarray:
        """Returns how many pairs of each kind the texts of each class have between thresholds `[K]`, `[2, C, K]`.

        Thresholds are ascending. Pairs from each threshold up to the next are counted.
        """
        columns = len(thresholds) + 1
        cells = np.searchsorted(thresholds, self.scores, side="right")
        keys, size = self.of_texts[:, None] * columns + cells, len(self.classes) * columns
        kinds = (np.bincount(keys[kind], minlength=size) for kind in (self.same, ~self.same))
        return np.stack([each.reshape(-1, columns)[:, 1:] for each in kinds])


def classes_of_texts(pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns the class of each text `[M]`, which is the class of its first image, from pairs as in `TextPairs.of`."""
    found = np.zeros(pairs[:, 1].max() + 1, np.int64)
    found[pairs[::-1, 1]] = np.asarray(labels)[pairs[::-1, 0]]
    return found


def _sample(random, rows):
    """Returns the different rows, ascending, or a random sample of them if they are more than `MOST`."""
    rows = np.unique(rows)
    return np.sort(random.choice(rows, MOST, replace=False)) if len(rows) > MOST else rows
