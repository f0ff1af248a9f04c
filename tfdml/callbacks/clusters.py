"""Callbacks that divide or label training images by clusters, and refresh the tables of samplers."""

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
    """Clusters the embeddings of all training images at the start of every n-th epoch, and has them as their labels.

    Args:
        images: all training images in the order of the sampler's rows, see `EmbeddingCallback`.
        sampler: `pipelines.sampling.PseudoClasses`, bound to labels.
        clusters: number of clusters.
        every: epochs from one clustering to the next.
        iterations: of K-means.
        seed: integer; determines the initial centroids.
        **kwargs: other arguments of `EmbeddingCallback`.
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
        # Others could find other clusters on another kind of processor.
        (after,) = self.workers.from_first(lambda: kmeans(embeddings, self.clusters, **options)[:1])
        self.assignment = after if before is None else matched(before, after, self.clusters)
        try:
            self.sampler.assign(self.assignment)
        except ValueError as error:
            raise ValueError(f"The {self.clusters} clusters of epoch {epoch + 1} give no batches: {error}") from None
        sizes = np.bincount(self.assignment, minlength=self.clusters)
        self._last = {"epoch": epoch, "smallest": int(sizes.min()), "largest": int(sizes.max())}
        if before is not None:
            self._last["changed"] = float(np.mean(before != self.assignment))
        self.tell("labels", {name: value for name, value in self._last.items() if name != "epoch"})

    def finding(self) -> dict[str, Any] | None:
        """Returns sizes of the last clusters, and the fraction of images whose label they changed; None before."""
        return self._last

    def get_state(self) -> dict[str, Any]:
        return {"last": self._last, "assignment": None if self.assignment is None else self.assignment.tolist()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the labels of a state."""
        self._last = state["last"]
        if state["assignment"] is not None:
            self.assignment = np.array(state["assignment"], np.int64)
            self.sampler.assign(self.assignment)


# Fraction of a run's time above which a warning says what to change.
MOST_TIME = 0.25


class Recluster(EmbeddingCallback):
    """Clusters the embeddings of all training images, and assigns each learner the cluster most like its previous one.

    It follows the model's `division` at the start of epochs, by `sampler.assign`: no dataset is rebuilt and no function
    is traced again.

    Example: see docs/divide_and_conquer.md.

    Args:
        images: all training images in the order of the sampler's rows, see `EmbeddingCallback`.
        labels: `[N]` class numbers.
        sampler: `pipelines.sampling.WithinClusters`, bound to these labels.
        seed: integer; determines the initial centroids.
        **kwargs: other arguments of `EmbeddingCallback`, but for `count`.
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
            raise ValueError(f"Expected a DivideAndConquer model, received {type(model).__name__}.")

    def on_train_begin(self, logs=None):
        self._began, self._seconds = time.monotonic(), 0.0

    def begin_epoch(self, epoch, goes_on):
        division, before = self.model.division, self.assignment
        self.model.begin_epoch(epoch, goes_on)
        # Nothing is divided yet where training begins in the middle of the plan.
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
                f"Clustering takes {100 * share:.0f} % of the time. Raise recluster_every, now {every}."
            )

    def finding(self) -> dict[str, Any] | None:
        """Returns each learner's number of steps, and the last clustering with distances of negative pairs, or None."""
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
        """Restores the clusters of a state."""
        self.history, self._distances = list(state["history"]), state["negative_distances"]
        self._learned = state["steps_of_learners"]
        self.assignment = None if state["assignment"] is None else np.array(state["assignment"], np.int64)

    def _divide(self, division):
        before = self.assignment
        if division.data_split == "random":
            # Of equal size.
            after = np.random.default_rng(self.seed).permutation(len(self.labels)) % division.learners
        elif division.data_split in ("labels", "random_classes"):
            _, numbers = np.unique(self.labels, return_inverse=True)
            after = self._ranges_of_classes(np.bincount(numbers), division)[numbers]
        else:
            embeddings = self.embed()
            options = {"seed": self.seed, "iterations": division.iterations, "restarts": division.restarts}
            # Others could find other clusters on another kind of processor.
            (after,) = self.workers.from_first(lambda: kmeans(embeddings, division.learners, **options)[:1])
            self._distances = negative_distances(embeddings, self.labels, after, seed=self.seed)
        self.assignment = after if before is None else matched(before, after, division.learners)

    def _ranges_of_classes(self, counts, division):
        """The cluster of each class: ranges of classes, with numbers of images as equal as possible."""
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
                "%d images are left out: alone in their class within their cluster, or in a cluster without a batch.",
                entry["left_out"],
            )
        for kind, consequence in (
            ("small", "are smaller than a batch needs; their batches repeat images"),
            ("idle", "do not fill a batch; these learners wait"),
        ):
            if entry[kind]:
                learners = ", ".join(map(str, entry[kind]))
                warning = "Epoch %d: the clusters of learners %s %s."
                logging.getLogger(__name__).warning(warning, entry["epoch"] + 1, learners, consequence)


class SamplerRefresh(EmbeddingCallback):
    """Embeds all training images every `sampler.refresh_every` epochs, and calls `sampler.refresh` with the embeddings.

    The first time is after so many epochs. No dataset is rebuilt and no function is traced again.

    Example: after `sampler = HardNeighbors(pairs=8)` and `sampler.bind(labels)`,
    `model.fit(batches, shuffle=False, callbacks=[SamplerRefresh(images, sampler)])`.

    Args:
        images: all training images in the order of the sampler's rows, see `EmbeddingCallback`.
        sampler: a sampler with `refresh_every`, bound to the labels.
        **kwargs: other arguments of `EmbeddingCallback`.
    """

    def __init__(self, images: ImageBatches, sampler: Any, **kwargs: Unpack[PassArguments]):
        super().__init__(images, **kwargs)
        self.sampler = sampler
        # Of what a refresh changed, for checkpoints: far smaller as arrays than as numbers of a state.
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
        """Returns the epoch of the last refresh and the fraction of the tables that it changed; None before it."""
        return self._last

    def get_state(self) -> dict[str, Any]:
        return {"last": self._last}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state; the `variables` are restored before, and go into the sampler's tables."""
        self._last = state["last"]
        for variable, table in zip(self.variables, self.sampler.refreshed(), strict=True):
            table.assign(variable.numpy())
