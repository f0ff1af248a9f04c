"""Labels training images by clusters of their embeddings, at intervals."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from tfdml.callbacks.embedding_callback import EmbeddingCallback, PassArguments
from tfdml.evaluation.embedder import ImageBatches
from tfdml.neighbors.clustering import kmeans, matched


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
