"""Callbacks that divide or label the training images by clustering, and update the tables of samplers."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Unpack

import keras
import numpy as np

from tfdml.callbacks.base import EmbeddingCallback, MethodModel, PassArguments
from tfdml.evaluation.diversity import negative_distances
from tfdml.evaluation.embedder import ImageBatches
from tfdml.neighbors.clustering import kmeans, matched, overlap
from tfdml.registry.arguments import Labels


class ClusterLabels(EmbeddingCallback):
    """Callback that clusters the embeddings of all training images and uses the clusters as their labels.

    Use it to train without class labels. It runs K-means before the first epoch and then at the start of every n-th
    epoch. Each new cluster gets the number of the previous cluster that it resembles most. The training command adds
    this callback for `--labels="clusters(k=100, every=2)"`.

    Args:
        images: All training images in the order of the sampler's rows, see `EmbeddingCallback`.
        sampler: `pipelines.sampling.PseudoClasses`, bound to labels. It receives the cluster of each image.
        clusters: Integer. Number of clusters.
        every: Integer. Number of epochs from one clustering to the next. Defaults to `1`.
        iterations: Integer. Number of K-means iterations. Defaults to `20`.
        seed: Integer. Determines the initial centroids. Defaults to `0`.
        **kwargs: Other arguments of `EmbeddingCallback`.

    Raises:
        ValueError: If the sampler cannot draw batches from the clusters.

    Example:

    ```python
    from pipelines.sampling import PseudoClasses, PxK

    images = np.random.uniform(-2, 2, (12, 16, 16, 3)).astype("float32")
    sampler = PseudoClasses(PxK(classes=2, per_class=2))
    sampler.bind(np.arange(12) % 3)


    def batch(step):
        rows = sampler.rows(0, step[None])[0]
        return tf.gather(images, rows), tf.gather(sampler.tables()[0], rows)


    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "triplet")
    callback = tfdml.callbacks.ClusterLabels(images, sampler, clusters=2)
    history = model.fit(tf.data.Dataset.range(4).map(batch), shuffle=False, callbacks=[callback], verbose=0)
    np.unique(callback.assignment)  # [0, 1]
    ```
    """

    def __init__(
        self,
        images: ImageBatches,
        sampler: Any,
        clusters: int,
        *,
        every: int = 1,
        iterations: int = 20,
        seed: int = 0,
        **kwargs: Unpack[PassArguments],
    ):
        super().__init__(images, **kwargs)
        self.sampler, self.clusters = sampler, clusters
        self.every, self.iterations, self.seed = every, iterations, seed
        self.assignment = None
        self._last = None

    def begin_epoch(self, epoch, goes_on):
        before = self.assignment
        if before is not None and (goes_on or epoch % self.every):
            return
        embeddings, options = self.embed(), {"seed": self.seed, "iterations": self.iterations}
        # Only the first worker clusters, because another kind of processor could find different clusters.
        (after,) = self.workers.from_first(lambda: kmeans(embeddings, self.clusters, **options)[:1])
        self.assignment = after if before is None else matched(before, after, self.clusters)
        try:
            self.sampler.assign(self.assignment)
        except ValueError as error:
            raise ValueError(
                f"The sampler cannot draw batches from the {self.clusters} clusters of epoch {epoch + 1}: {error}"
            ) from None
        sizes = np.bincount(self.assignment, minlength=self.clusters)
        self._last = {"epoch": epoch, "smallest": int(sizes.min()), "largest": int(sizes.max())}
        if before is not None:
            self._last["changed"] = float(np.mean(before != self.assignment))
        self.tell("labels", {name: value for name, value in self._last.items() if name != "epoch"})

    def finding(self) -> dict[str, Any] | None:
        """Returns the sizes of the last clusters and the fraction of images with a new label, or `None` before them."""
        return self._last

    def get_state(self) -> dict[str, Any]:
        return {"last": self._last, "assignment": None if self.assignment is None else self.assignment.tolist()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the labels from a state that `get_state` returned."""
        self._last = state["last"]
        if state["assignment"] is not None:
            self.assignment = np.array(state["assignment"], np.int64)
            self.sampler.assign(self.assignment)


# Fraction of the training time. If clustering needs more, a warning suggests what to change.
MOST_TIME = 0.25


class Recluster(EmbeddingCallback):
    """Callback that clusters the training images and assigns one cluster to each learner of `DivideAndConquer`.

    It must be used to train `tfdml.DivideAndConquer` in your own code; the training command adds it. At the start of
    the epochs in the model's plan (`recluster_every`, `divide_at`, `merge_at`), it embeds and clusters all images.
    Each learner continues with the cluster that overlaps most with its previous one. The callback only replaces tables
    of the sampler, so the dataset is not rebuilt and no function is traced again.

    Args:
        images: All training images in the order of the sampler's rows, see `EmbeddingCallback`.
        labels: `[N]` integer class labels.
        sampler: `pipelines.sampling.WithinClusters`, bound to these labels.
        seed: Integer. Determines the initial centroids and random divisions. Defaults to `0`.
        **kwargs: Other arguments of `EmbeddingCallback`, except `count`.

    Raises:
        ValueError: If the model is not a `DivideAndConquer` model.

    Example:

    ```python
    from pipelines.sampling import PxK, WithinClusters

    labels = np.repeat(np.arange(8), 4)
    images = np.random.uniform(-2, 2, (32, 16, 16, 3)).astype("float32")
    sampler = WithinClusters(PxK(classes=2, per_class=2))
    sampler.bind(labels)


    def batch(step):
        rows, learner = sampler.rows(0, step[None])[0], sampler.learners(0, step[None])
        targets = {"label": tf.gather(labels, rows), "learner": tf.repeat(learner, sampler.batch_size)}
        return tf.gather(images, rows), targets


    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=4, stages=2), embedding_size=8, learners=2)
    model.compile("adam", "margin")
    recluster = tfdml.callbacks.Recluster(images, labels, sampler)
    history = model.fit(tf.data.Dataset.range(4).map(batch), shuffle=False, callbacks=[recluster], verbose=0)
    sum(recluster.history[0]["sizes"])  # 32
    ```
    """

    def __init__(
        self, images: ImageBatches, labels: Labels, sampler: Any, *, seed: int = 0, **kwargs: Unpack[PassArguments]
    ):
        super().__init__(images, len(labels), **kwargs)
        self.labels, self.sampler, self.seed = np.asarray(labels), sampler, seed
        self.history = []
        self.assignment = None
        self._distances = None
        self._learned = None
        self._seconds = 0.0
        self._warned = False

    def set_model(self, model):
        super().set_model(model)
        if not (isinstance(model, MethodModel) and model.division):
            raise ValueError(
                "Recluster divides images among the learners of a model. Expected a tfdml.DivideAndConquer model. "
                f"Received: {type(model).__name__}."
            )

    def on_train_begin(self, logs=None):
        self._began, self._seconds = time.monotonic(), 0.0

    def begin_epoch(self, epoch, goes_on):
        division, before = self.model.division, self.assignment
        self.model.begin_epoch(epoch, goes_on)
        # If training starts in the middle of the plan, the data are not divided yet.
        is_divided = before is not None
        anew = division.divides_anew(epoch, is_divided) and not (goes_on and is_divided)
        if anew:
            began = time.monotonic()
            self._divide(division)
            self._seconds += time.monotonic() - began
        if not division.divides_data(epoch):
            self.sampler.assign(None)
            return
        turns = division.divides_embedding(epoch)
        counts = self.sampler.assign(self.assignment, turns=turns, learners=division.learners)
        if anew:
            learners, after = division.learners, self.assignment
            entry = {"epoch": epoch, "sizes": np.bincount(after, minlength=learners).tolist(), **counts}
            if before is not None:
                entry["iou"] = np.diag(overlap(before, after, learners)).tolist()
                entry["changed"] = float(np.mean(before != after))
            self.history.append(entry)
            self._tell(entry)

    def on_epoch_end(self, epoch, logs=None):
        self._learned = self.model.steps.turns.numpy().tolist()
        losses = self.model.learner_losses()
        values = {f"loss_of_learner_{k}": loss for k, (loss, batches) in enumerate(losses) if batches}
        if values:
            self.tell("learners", values)
        share = self._seconds / (time.monotonic() - self._began)
        if share > MOST_TIME and len(self.history) > 1 and not self._warned:
            self._warned = True
            every = self.model.division.recluster_every
            logging.getLogger(__name__).warning(
                f"Clustering uses {100 * share:.0f}% of the training time. Increase recluster_every, which is {every}."
            )

    def finding(self) -> dict[str, Any] | None:
        """Returns the number of steps of each learner and the last clustering, or `None` before there is one."""
        clustering = self.history[-1] | {"negative_distances": self._distances} if self.history else {}
        learned = {"steps_of_learners": self._learned} if self._learned else {}
        return clustering | learned or None

    def get_state(self) -> dict[str, Any]:
        return {
            "assignment": None if self.assignment is None else self.assignment.tolist(),
            "history": list(self.history),
            "negative_distances": self._distances,
            "steps_of_learners": self._learned,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the clusters from a state that `get_state` returned."""
        self.history, self._distances = list(state["history"]), state["negative_distances"]
        self._learned = state["steps_of_learners"]
        self.assignment = None if state["assignment"] is None else np.array(state["assignment"], np.int64)

    def _divide(self, division):
        before = self.assignment
        if division.data_split == "random":
            # The remainder of a division makes parts of equal size.
            after = np.random.default_rng(self.seed).permutation(len(self.labels)) % division.learners
        elif division.data_split in ("labels", "random_classes"):
            _, numbers = np.unique(self.labels, return_inverse=True)
            after = self._ranges_of_classes(np.bincount(numbers), division)[numbers]
        else:
            embeddings = self.embed()
            options = {"seed": self.seed, "iterations": division.iterations, "restarts": division.restarts}
            # Only the first worker clusters, because another kind of processor could find different clusters.
            (after,) = self.workers.from_first(lambda: kmeans(embeddings, division.learners, **options)[:1])
            self._distances = negative_distances(embeddings, self.labels, after, seed=self.seed)
        self.assignment = after if before is None else matched(before, after, division.learners)

    def _ranges_of_classes(self, counts, division):
        """Returns the cluster of each class: ranges of classes that have about the same number of images."""
        shuffled = division.data_split == "random_classes"
        order = np.random.default_rng(self.seed).permutation(len(counts)) if shuffled else np.arange(len(counts))
        middles = np.cumsum(counts[order]) - counts[order] / 2
        clusters = np.empty(len(counts), int)
        clusters[order] = middles * division.learners // counts.sum()
        return clusters

    def _tell(self, entry):
        values = {f"size_of_learner_{k}": size for k, size in enumerate(entry["sizes"])}
        values["left_out"] = entry["left_out"]
        if "iou" in entry:
            values |= {"iou": float(np.mean(entry["iou"])), "changed": entry["changed"]}
        if self._distances:
            kinds = {"within": "mean_within", "between": "mean_between"}
            means = {f"negative_distance_{kind}": self._distances[mean] for kind, mean in kinds.items()}
            values |= {name: mean for name, mean in means.items() if mean is not None}
        self.tell("clusters", values)
        if entry["left_out"]:
            logging.getLogger(__name__).info(
                "%d images are not used: they are the only ones of their class in their cluster, or their cluster is "
                "too small for a batch.",
                entry["left_out"],
            )
        for kind, consequence in (
            ("small", "are too small for a batch without repetitions, so their batches repeat images"),
            ("idle", "are too small for a batch, so these learners do not train until the next clustering"),
        ):
            if entry[kind]:
                learners = ", ".join(map(str, entry[kind]))
                warning = "In epoch %d, the clusters of learners %s %s."
                logging.getLogger(__name__).warning(warning, entry["epoch"] + 1, learners, consequence)


class SamplerRefresh(EmbeddingCallback):
    """Callback that passes new embeddings of all training images to a sampler every `sampler.refresh_every` epochs.

    Use it with samplers that mine hard negatives among all training images, such as
    `pipelines.sampling.HardNeighbors`. The first refresh happens after `refresh_every` epochs. The callback only
    replaces tables of the sampler, so the dataset is not rebuilt and no function is traced again.

    Args:
        images: All training images in the order of the sampler's rows, see `EmbeddingCallback`.
        sampler: Sampler with `refresh_every`, bound to the labels.
        **kwargs: Other arguments of `EmbeddingCallback`.

    Example:

    ```python
    from pipelines.sampling import HardNeighbors

    labels = np.repeat(np.arange(4), 4)
    images = np.random.uniform(-2, 2, (16, 16, 16, 3)).astype("float32")
    sampler = HardNeighbors(pairs=2, neighbors=2)
    sampler.bind(labels)


    def batch(step):
        rows = sampler.rows(0, step[None])[0]
        return tf.gather(images, rows), tf.gather(labels, rows)


    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "lifted_structure")
    refresh = tfdml.callbacks.SamplerRefresh(images, sampler)
    batches = tf.data.Dataset.range(4).map(batch)
    history = model.fit(batches, shuffle=False, epochs=2, callbacks=[refresh], verbose=0)
    refresh.finding()["epoch"]  # 1
    ```
    """

    def __init__(self, images: ImageBatches, sampler: Any, **kwargs: Unpack[PassArguments]):
        super().__init__(images, **kwargs)
        self.sampler = sampler
        # Checkpoints save these variables: as arrays, the tables are far smaller than as numbers in the state.
        self.variables = [
            keras.Variable(value, name=f"sampler_table_{place}", dtype=str(value.dtype), trainable=False)
            for place, value in enumerate(table.numpy() for table in sampler.refreshed())
        ]
        self._last = None

    def begin_epoch(self, epoch, goes_on):
        if goes_on or not epoch or epoch % self.sampler.refresh_every:
            return
        self.sampler.refresh(self.embed(), self.workers)
        changed = []
        for variable, table in zip(self.variables, self.sampler.refreshed(), strict=True):
            after = table.numpy()
            changed.append(np.mean(variable.numpy() != after))
            variable.assign(after)
        self._last = {"epoch": epoch, "changed": float(np.mean(changed))}
        self.tell("sampler", {"changed": self._last["changed"]})

    def finding(self) -> dict[str, Any] | None:
        """Returns the epoch of the last refresh and the fraction of the tables that changed, or `None` before it."""
        return self._last

    def get_state(self) -> dict[str, Any]:
        return {"last": self._last}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state and copies the `variables`, which must be restored first, to the sampler's tables."""
        self._last = state["last"]
        for variable, table in zip(self.variables, self.sampler.refreshed(), strict=True):
            table.assign(variable.numpy())
