"""Batches of a sampler with labels that may be replaced while a run trains."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipelines.sampling.sampler import Sampler
from tfdml.registry.arguments import Labels, Tensor


class PseudoClasses(Sampler):
    """Draws the batches of a sampler by labels that `assign` replaces; batches have these labels.

    Args:
        sampler: the sampler that composes the batches.
    """

    gives_labels = True
    not_within_clusters = "its classes are clusters already"

    def __init__(self, sampler: Sampler):
        if sampler.gives_relevance or sampler.refresh_every or sampler.takes_turns:
            raise ValueError(f"{type(sampler).__name__} has tables of its own, and draws by no labels that change.")
        self.sampler = sampler
        self.batch_size, self.parts = sampler.batch_size, sampler.parts
        self.several_per_class, self.several_views = sampler.several_per_class, sampler.several_views

    def tables_of(self, labels):
        return [np.asarray(labels, np.int64), *map(np.asarray, self.sampler.tables_of(labels))]

    def assign(self, labels: Labels) -> None:
        """Replaces the labels `[N]`; the next pass over the dataset draws by the new ones."""
        for variable, table in zip(self._tables, self.tables_of(labels), strict=True):
            variable.assign(table)

    def draw_rows(self, seed, steps, labels, *tables):
        return self.sampler.draw_rows(seed, steps, *tables)

    def labels_of(self, rows: Tensor, tables: Sequence[Tensor]) -> tf.Tensor:
        """Returns the current labels of rows, of the same shape."""
        return tf.gather(tables[0], rows)
