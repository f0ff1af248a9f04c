"""Batches as a `keras.utils.PyDataset`, for models that Keras trains without TensorFlow.

They are what `pipelines.build` makes with `tf.data`: a batch depends only on the seed and the step, and images have the
same rows, crops and random numbers.
"""

import collections
import os
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np

from pipelines.sampling.sampler import drawn_targets

# Number of threads that read and transform images. On a network disk, most of the time is spent waiting.
THREADS = min(32, 4 + (os.cpu_count() or 1))
# Number of batches to prepare ahead of the model.
BATCHES_AHEAD = 2


class _Batches(keras.utils.PyDataset):
    """Base class of batches that threads prepare ahead of the model."""

    def __init__(self, read, prepare, steps):
        super().__init__()
        self._read, self._prepare, self._steps = read, prepare, steps
        self._threads = ThreadPoolExecutor(THREADS)
        self._begun = collections.OrderedDict()

    def __len__(self):
        return self._steps

    def _begin(self, index):
        """Starts to prepare the images of a batch; returns its futures and its targets."""
        raise NotImplementedError

    def _taken(self, index):
        """Returns the images and the targets of a batch, and starts to prepare the batches after it."""
        if index not in self._begun:
            # Another order than the one of an epoch.
            self._begun.clear()
        for following in range(index, min(index + 1 + BATCHES_AHEAD, self._steps)):
            if following not in self._begun:
                self._begun[following] = self._begin(following)
        futures, targets = self._begun.pop(index)
        return np.stack([future.result() for future in futures]).astype(np.float32, copy=False), targets

    def _submit(self, row, seed):
        return self._threads.submit(self._image, int(row), seed)

    def _image(self, row, seed):
        try:
            return self._prepare(self._read(row), seed)
        except ValueError as error:
            raise ValueError(f"Image {row} cannot be used: {error}") from error


class DrawnBatches(_Batches):
    """Batches `(images, targets)` that a sampler draws. Each pass continues after the previous one.

    The targets are the labels, or what `Sampler.targets` specifies.

    Args:
        sampler: Sampler that is bound to the labels.
        labels: `[N]` integer class labels.
        read: Function from a row to an image or the contents of its file.
        prepare: Function `(image or contents, seed [2]) -> image`.
        steps: Integer. Number of batches per pass.
        first_step: Integer. Number of steps that were already done.
        seed: Integer.
    """

    def __init__(self, sampler, labels, read, prepare, *, steps, first_step, seed):
        super().__init__(read, prepare, steps)
        self._sampler, self._labels, self._seed = sampler, np.asarray(labels), seed
        self._first_step, self._is_complete, self._tables = first_step, False, None

    def __getitem__(self, index):
        if index == 0 and self._is_complete:
            # Keras starts the next epoch. It may also read the first batch to learn its shape.
            self._first_step += self._steps
            self._is_complete = False
            self._begun.clear()
            self._tables = None
        batch = self._taken(index)
        self._is_complete = index == self._steps - 1
        return batch

    def _begin(self, index):
        # The tables stay constant during a pass.
        self._tables = self._sampler.tables() if self._tables is None else self._tables
        seed, steps = np.int64(self._seed), np.array([self._first_step + index], np.int64)
        rows = self._sampler.rows(seed, steps, self._tables)
        size = rows.shape[1]
        seeds = [np.array([seed, number], np.int64) for number in (steps[0] * size + np.arange(size)).tolist()]
        targets = drawn_targets(self._sampler, rows, seed, steps, self._tables, slice(0, size))
        images = [self._submit(*each) for each in zip(rows[0].tolist(), seeds, strict=True)]
        return images, self._target(rows[0], targets)

    def _target(self, rows, drawn):
        if self._sampler.targets in ("relevance", "labels"):
            return drawn
        labels = self._labels[rows]
        return {"label": labels, "learner": drawn} if self._sampler.targets == "learners" else labels


class OrderedBatches(_Batches):
    """Batches of the images of all rows in order. The last batch is filled with copies of the last row.

    Args:
        count: Integer. Number of rows.
        read, prepare: see `DrawnBatches`.
        batch_size: Integer. Number of images per batch.
    """

    def __init__(self, count, read, prepare, *, batch_size):
        super().__init__(read, prepare, -(-count // batch_size))
        self._count, self._batch_size = count, batch_size

    @classmethod
    def of(cls, rows, batch_size, prepare=lambda row, seed: row):
        """Returns the batches of a list of arrays, which a function `(row, seed) -> array` prepares."""
        return cls(len(rows), lambda row: np.asarray(rows[row], np.float32), prepare, batch_size=batch_size)

    def __getitem__(self, index):
        return self._taken(index)[0]

    def _begin(self, index):
        rows = range(index * self._batch_size, (index + 1) * self._batch_size)
        seed = np.zeros(2, np.int64)
        return [self._submit(min(row, self._count - 1), seed) for row in rows], None
