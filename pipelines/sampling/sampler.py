"""The base of all samplers, and batches of any sampler from one cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import EVERYTHING, Stream, stream_key
from tfdml.registry.arguments import Embeddings, Labels, Tensor
from tfdml.registry.fields import Declared


class ClusterTables:
    """Draws batches from one cluster by a sampler's own arithmetic, with tables made for the rows of that cluster.

    Batches of a cluster are numbered from 0 and have a seed of its learner. So the cluster's rows are drawn as if they
    were a dataset of their own.
    """

    def __init__(self, sampler):
        self.sampler = sampler

    def divide(self, assignment, labels):
        """Makes the tables of all clusters, for rows with these learners and these labels, both `[N]`.

        Returns `(tables, learners, counts, irregular)`: int64 arrays for `draw_rows`, the learner of each cluster that
        fills a batch, the number of its rows, and `{"left_out": rows that are never drawn, "small": []}`.
        """
        made, errors = {}, {}
        for learner, members in members_of(assignment).items():
            try:
                made[learner] = members, self.tables_of(members, labels)
            except ValueError as error:
                if learner == EVERYTHING:
                    raise
                errors[len(members)] = error
        if not made:
            largest = max(errors)
            raise ValueError(
                f"No cluster fills a batch. The largest one has {largest} rows: {errors[largest]} Or use fewer "
                "learners."
            ) from errors[largest]
        rows, tables = zip(*made.values(), strict=True)
        counts = np.array([len(members) for members in rows])
        packed = [part for of_clusters in zip(*tables, strict=True) for part in _packed(of_clusters)]
        drawn = sum(self.sampler.drawn(labels[members]) for members in rows)
        tables = [np.concatenate(rows), np.cumsum(counts) - counts, *packed]
        return tables, np.array(list(made)), counts, {"left_out": len(assignment) - drawn, "small": []}

    def tables_of(self, members, labels):
        """Returns the sampler's tables for the rows `members` of a cluster, ascending, as if numbered from 0."""
        return [np.asarray(table) for table in self.sampler.tables_of(labels[members])]

    def draw_rows(self, seed, steps, cluster, number, learner, *tables):
        """Returns row numbers `[n, batch_size]`, with the tables of `divide`.

        Each step has its `cluster`, by its place in what `divide` returned, the `number` of the cluster's earlier
        batches, and its `learner`, -1 while all rows are one cluster.
        """
        rows, starts, *packed = tables
        own = tf.bitcast(stream_key(seed, Stream.LEARNERS, learner), tf.int64)
        seeds = tf.where(learner == EVERYTHING, seed, own)

        def of_step(about):
            cluster, number, seed = about
            own = []
            for values, ends, shapes in zip(packed[::3], packed[1::3], packed[2::3], strict=True):
                shape = shapes[cluster]
                own.append(tf.reshape(values[ends[cluster] - tf.reduce_prod(shape) : ends[cluster]], shape))
            places = self.sampler.rows(seed, number[None], own)[0]
            return starts[cluster] + tf.cast(places, tf.int64)

        places = tf.map_fn(
            of_step, (cluster, number, seeds), fn_output_signature=tf.TensorSpec([self.sampler.batch_size], tf.int64)
        )
        return tf.gather(rows, places)


def members_of(assignment):
    """Returns `{learner: its rows, ascending}`, sorted by learner."""
    rows = np.argsort(assignment, kind="stable")
    learners, starts = np.unique(assignment[rows], return_index=True)
    return dict(zip(learners.tolist(), np.split(rows, starts[1:]), strict=True))


def _packed(of_clusters):
    """Returns the tables of all clusters, of several shapes, as their values, ends and shapes."""
    values = np.concatenate([table.ravel() for table in of_clusters])
    ends = np.cumsum([table.size for table in of_clusters])
    return values, ends, np.array([table.shape for table in of_clusters], np.int64)


class Sampler(Declared):
    """Decides the rows of each batch, as a pure function of a seed, the step, and tables made from the labels.

    A subclass states its arguments as fields, see `tfdml.registry.Declared`, or has an `__init__`. It has an attribute
    or property `batch_size` and two methods, `tables_of` and `draw_rows`. Then it also works within clusters, for
    methods that divide the data: with tables made from the labels of each cluster.

    `bind` stores the tables in variables. `rows` computes the batches of any steps, in any order, with the same result.
    """

    # Of how many equal parts a batch is made, row i of one with row i of the others: 2 for images and their partners.
    parts = 1
    # Whether a batch has several images of each of its classes.
    several_per_class = False
    # Whether it draws an image several times, for views of it that differ.
    several_views = False
    # What a loss learns from: the "classes" of rows; those and the "learners" whose turn it is, as `{"label": ...,
    # "learner": ...}`; "labels" that `labels_of` returns; or the "relevance" of the pairs of a batch.
    targets = "classes"
    # Epochs from one call of `refresh` to the next, for tables that follow the embedding; None: it is not called.
    refresh_every = None

    _tables = None

    @property
    def uses_classes(self) -> bool:
        """Whether the labels of a batch are those of the split."""
        return self.targets in ("classes", "learners")

    @property
    def not_within_clusters(self) -> str | None:
        """Why batches cannot be drawn from one cluster, as the end of a sentence; None if they can."""
        return "its tables follow the embeddings of all rows" if self.refresh_every else None

    def tables_of(self, labels: np.ndarray) -> Sequence[Any]:
        """Returns the tables, a list of NumPy arrays, for rows with these labels `[N]`.

        Raises a ValueError where the rows do not fill a batch. Within clusters the labels are those of one cluster's
        rows, and the learner of a cluster that does not fill a batch waits.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method tables_of(labels).")

    def drawn(self, labels: np.ndarray) -> int:
        """Returns how many of the rows with these labels `[N]` batches are drawn from."""
        return len(labels)

    def fitted_to(self, labels: np.ndarray) -> dict[str, Any]:
        """Returns arguments, by name, with which rows with these labels `[N]` fill a batch; default: none change.

        An argument that fits keeps its value.
        """
        del labels
        return {}

    def draw_rows(self, seed: Tensor, steps: Tensor, *tables: Tensor) -> tf.Tensor:
        """Returns row numbers `[n, batch_size]`, by TensorFlow operations that depend on the arguments alone.

        Args:
            seed: int64 scalar.
            steps: `[n]` int64, in any order.
            *tables: the current values of the tables.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method draw_rows(seed, steps, *tables).")

    def refresh(self, embeddings: Embeddings, workers: Any = None) -> None:
        """Changes the tables by the embeddings `[N, d]` of all rows; called at the start of every n-th epoch.

        Args:
            embeddings: `[N, d]` array, the same on all workers.
            workers: the `Workers` that call it together, and must get the same tables; None: this process.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method refresh(embeddings, workers).")

    def refreshed(self) -> list[tf.Variable]:
        """Returns the tables that `refresh` changes, variables of constant shape; they are saved with checkpoints."""
        return []

    def cluster_draws(self) -> Any:
        """Returns how batches are drawn from one cluster of the rows; see `ClusterTables`."""
        return ClusterTables(self)

    def relevance(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor]) -> tf.Tensor:
        """Returns the relevance `[n, batch_size, batch_size]` of pairs, below 0 where it is not known."""
        raise NotImplementedError(f"{type(self).__name__} needs the method relevance(seed, steps, tables).")

    def bind_split(self, split: Any) -> None:
        """Creates the tables for the rows of a `Split`, by their labels; a sampler may need more of them."""
        self.bind(split.labels)

    def bind(self, labels: Labels) -> None:
        """Creates the tables for rows with these labels `[N]`."""
        # The number of rows may change when tables are replaced.
        self._tables = [
            tf.Variable(table, trainable=False, shape=[None, *table.shape[1:]] if table.ndim else [])
            for table in map(np.asarray, self.tables_of(labels))
        ]

    def tables(self) -> list[tf.Tensor]:
        """Returns the current tables; read once, at the start of an epoch, they are the same for all its batches."""
        if self._tables is None:
            raise ValueError(f"{type(self).__name__} has no tables yet: call bind(labels) first.")
        return [table.read_value() for table in self._tables]

    def rows(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor] | None = None) -> tf.Tensor:
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`. Default: from the current tables."""
        tables = self.tables() if tables is None else tables
        return self.draw_rows(tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), *tables)


def check_embeddings(embeddings, labels):
    """Raises a ValueError where `refresh` receives embeddings that are not one for each row."""
    if len(embeddings) != len(labels):
        raise ValueError(f"Expected an embedding for each of {len(labels)} training rows, received {len(embeddings)}.")
