"""Base class of all samplers, and batches of any sampler from one cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.operations import tf
from pipelines.sampling.draws import EVERYTHING, Stream, stream_key
from tfdml.registry.arguments import Embeddings, Labels, Tensor
from tfdml.registry.fields import Declared


class ClusterTables:
    """Draws batches from one cluster with a sampler's own method, using tables for the rows of that cluster.

    Batches of a cluster are numbered from 0, with a seed that depends on its learner. So the cluster's rows are drawn
    as if they were a separate dataset.
    """

    def __init__(self, sampler):
        self.sampler = sampler

    def divide(self, assignment, labels):
        """Creates the tables of all clusters for rows with these learners and labels, both `[N]`.

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
                f"No cluster fills a batch. The largest cluster has {largest} images. {errors[largest]} Or use fewer "
                "learners."
            ) from errors[largest]
        rows, tables = zip(*made.values(), strict=True)
        counts = np.array([len(members) for members in rows])
        packed = [part for of_clusters in zip(*tables, strict=True) for part in _packed(of_clusters)]
        drawn = sum(self.sampler.drawn(labels[members]) for members in rows)
        tables = [np.concatenate(rows), np.cumsum(counts) - counts, *packed]
        return tables, np.array(list(made)), counts, {"left_out": len(assignment) - drawn, "small": []}

    def tables_of(self, members, labels):
        """Returns the sampler's tables for the ascending rows `members` of a cluster, renumbered from 0."""
        return [np.asarray(table) for table in self.sampler.tables_of(labels[members])]

    def draw_rows(self, seed, steps, cluster, number, learner, *tables):
        """Returns row numbers `[n, batch_size]`, with the tables from `divide`.

        Each step has a `cluster` (its index in the results of `divide`), the `number` of the cluster's earlier batches,
        and a `learner`, which is -1 if all rows form one cluster.
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
    """Returns tables of different shapes, one per cluster, as joined values, ends and shapes."""
    values = np.concatenate([table.ravel() for table in of_clusters])
    ends = np.cumsum([table.size for table in of_clusters])
    return values, ends, np.array([table.shape for table in of_clusters], np.int64)


class Sampler(Declared):
    """Base class of samplers, which choose the images of each batch from a seed, the step and tables of the labels.

    To write your own sampler, declare its arguments as fields (see `tfdml.registry.Declared`) or in `__init__`, add an
    attribute or property `batch_size`, and implement `tables_of` and `draw_rows`. It then also works within clusters,
    for methods such as Divide and Conquer, with tables of the labels of each cluster.

    `bind` stores the tables in variables. `rows` computes the batches of any steps, in any order, with the same result.

    Example:

    ```python
    from pipelines.sampling import Sampler

    class InOrder(Sampler):
        batch_size: int = 2

        def tables_of(self, labels):
            return [np.int64(len(labels))]

        def draw_rows(self, seed, steps, total):
            return (self.batch_size * steps[:, None] + tf.range(self.batch_size, dtype=tf.int64)) % total

    sampler = InOrder(batch_size=2)
    sampler.bind(np.array([0, 0, 1, 1]))
    sampler.rows(seed=0, steps=[0, 1, 2]).numpy().tolist()  # [[0, 1], [2, 3], [0, 1]]
    ```
    """

    # Number of equal parts of a batch. Row i of a part belongs to row i of the others: 2 for images and their partners.
    parts = 1
    # Whether a batch has several images of each of its classes.
    several_per_class = False
    # Whether an image is drawn several times, for different views of it.
    several_views = False
    # What a loss learns from: the "classes" of rows; "learners", the classes together with the learner that trains, as
    # `{"label": ..., "learner": ...}`; "labels" that `labels_of` returns; or the "relevance" of the pairs of a batch.
    targets = "classes"
    # Number of epochs between calls of `refresh`, for tables that follow the embedding, or None if it is not called.
    refresh_every = None

    _tables = None

    @property
    def uses_classes(self) -> bool:
        """Whether the labels of a batch are the labels of the split."""
        return self.targets in ("classes", "learners")

    @property
    def not_within_clusters(self) -> str | None:
        """Why batches cannot be drawn from one cluster, as the end of a sentence, or None if they can."""
        return "its tables follow the embeddings of all rows" if self.refresh_every else None

    def tables_of(self, labels: np.ndarray) -> Sequence[Any]:
        """Returns the tables, a list of NumPy arrays, for rows with these labels `[N]`.

        Raise a ValueError if the rows do not fill a batch. Within clusters, it is called with the labels of each
        cluster. The learner of a cluster that does not fill a batch waits.
        """
        raise NotImplementedError(f"The sampler {type(self).__name__} must implement tables_of(labels).")

    def drawn(self, labels: np.ndarray) -> int:
        """Returns how many of the rows with these labels `[N]` can be in a batch."""
        return len(labels)

    def fitted_to(self, labels: np.ndarray) -> dict[str, Any]:
        """Returns the arguments to change so that rows with these labels `[N]` fill a batch, by name.

        An argument that fits keeps its value. By default, no argument changes.
        """
        del labels
        return {}

    def draw_rows(self, seed: Tensor, steps: Tensor, *tables: Tensor) -> tf.Tensor:
        """Returns row numbers `[n, batch_size]`, by TensorFlow operations that depend only on the arguments.

        Args:
            seed: Scalar int64 tensor.
            steps: `[n]` int64 tensor, in any order.
            *tables: Current values of the tables.
        """
        raise NotImplementedError(f"The sampler {type(self).__name__} must implement draw_rows(seed, steps, *tables).")

    def refresh(self, embeddings: Embeddings, workers: Any = None) -> None:
        """Updates the tables from the embeddings `[N, d]` of all rows, at the start of every `refresh_every` epochs.

        Args:
            embeddings: `[N, d]` array, the same on all workers.
            workers: `Workers` that call it together and must get the same tables, or `None`. If `None`, only this
                process calls it. Defaults to `None`.
        """
        raise NotImplementedError(f"The sampler {type(self).__name__} must implement refresh(embeddings, workers).")

    def refreshed(self) -> list[tf.Variable]:
        """Returns the variables that `refresh` changes, which have constant shapes and are saved in checkpoints."""
        return []

    def cluster_draws(self) -> Any:
        """Returns how batches are drawn from one cluster of the rows; see `ClusterTables`."""
        return ClusterTables(self)

    def relevance(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor]) -> tf.Tensor:
        """Returns the relevance `[n, batch_size, batch_size]` of pairs, which is below 0 if it is unknown."""
        raise NotImplementedError(f"The sampler {type(self).__name__} must implement relevance(seed, steps, tables).")

    def bind_split(self, split: Any) -> None:
        """Creates the tables for a `Split`. By default, only its labels are used."""
        self.bind(split.labels)

    def bind(self, labels: Labels) -> None:
        """Creates the tables for rows with these labels `[N]`."""
        # The number of rows may change when tables are replaced.
        self._tables = [
            tf.Variable(table, trainable=False, shape=[None, *table.shape[1:]] if table.ndim else [])
            for table in map(np.asarray, self.tables_of(labels))
        ]

    def tables(self) -> list[tf.Tensor]:
        """Returns the current tables. Reading them once per epoch keeps them constant for all its batches."""
        if self._tables is None:
            raise ValueError(f"The sampler {type(self).__name__} has no tables yet. Call bind(labels) first.")
        return [table.read_value() for table in self._tables]

    def rows(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor] | None = None) -> tf.Tensor:
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`.

        Args:
            seed: Integer.
            steps: `[n]` integers, in any order.
            tables: Values of the tables, or `None`. If `None`, the current tables are used. Defaults to `None`.
        """
        tables = self.tables() if tables is None else tables
        return self.draw_rows(tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), *tables)


def check_embeddings(embeddings, labels):
    """Raises a ValueError if `refresh` does not receive one embedding per row."""
    if len(embeddings) != len(labels):
        raise ValueError(
            f"Expected an embedding for each of the {len(labels)} training images. Received: {len(embeddings)} "
            "embeddings."
        )


def drawn_targets(sampler, rows, seed, steps, tables, mine):
    """Returns the sampler's targets for the images of `steps`, `[n, ...]`; `mine` is this worker's slice."""
    if sampler.targets == "relevance":
        return tf.reshape(sampler.relevance(seed, steps, tables)[:, mine], [-1, sampler.batch_size])
    if sampler.targets == "labels":
        return tf.reshape(sampler.labels_of(rows, tables), [-1])
    if sampler.targets == "learners":
        learners = sampler.learners(seed, steps, tables)
        one_each = len(learners.shape) == 1
        return tf.repeat(learners, mine.stop - mine.start) if one_each else tf.reshape(learners[:, mine], [-1])
    return ()
