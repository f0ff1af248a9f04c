"""When and how Divide and Conquer divides the data."""

from typing import Annotated, Literal, TypeAlias

from tfdml.registry.arguments import Count, integer
from tfdml.registry.fields import Value

DataSplit: TypeAlias = Literal["kmeans", "random", "random_classes", "labels", "none"]
ClusterOrder: TypeAlias = Literal["uniform", "proportional", "round_robin"]
Finetuned: TypeAlias = Literal["all", "embedding"]
Epoch = Annotated[int, integer(0)]


class Division(Value):
    """The plan of Algorithm 1 of Divide and Conquer, by epochs counted from 0.

    Args:
        learners: number K of clusters.
        recluster_every: T, epochs from one clustering to the next.
        data_split: `kmeans` of the embedding; `random` parts of the rows, random parts of the classes
            (`random_classes`), or ranges of class numbers (`labels`), all made once; or `none`: learners take turns on
            batches of all data. Table 6 compares K-means with parts of the rows and with groups of similar classes.
        cluster_order: which cluster a batch comes from: `uniform`, `proportional` to its size, or `round_robin`.
        divide_at: the first epoch with clusters and separate learners.
        merge_at: the first epoch that trains the whole embedding on all data again; None: never.
        merge_loss_at: the epoch from which the loss sees the whole embedding while batches still come from clusters;
            None: at `merge_at`.
        finetune: what learns from `merge_at` on: `all`, or the `embedding` layer alone, with what the loss learns; the
            backbone stays as it is then, batch norm too (Sec. 3.3).
        simultaneous: True: a step has a batch of every cluster, one for each learner, so that no learner waits. This
            is not in the paper.
        split_embedding: False: batches come from clusters, but the whole embedding learns from each (Table 6).
        iterations, restarts: of K-means.
    """

    learners: Count = 8
    recluster_every: Count = 2
    data_split: DataSplit = "kmeans"
    cluster_order: ClusterOrder = "uniform"
    divide_at: Epoch = 0
    merge_at: Epoch | None = None
    merge_loss_at: Epoch | None = None
    finetune: Finetuned = "all"
    simultaneous: bool = False
    split_embedding: bool = True
    iterations: Count = 50
    restarts: Count = 1

    def check_arguments(self):
        ends = [self.divide_at, *(end for end in (self.merge_loss_at, self.merge_at) if end is not None)]
        if ends != sorted(ends):
            raise ValueError(
                "Expected divide_at <= merge_loss_at <= merge_at; received "
                f"{self.divide_at}, {self.merge_loss_at} and {self.merge_at}."
            )
        if self.simultaneous and self.cluster_order == "proportional":
            raise ValueError(
                "simultaneous=True has a batch of every cluster in every step, equally many; received "
                "cluster_order='proportional'."
            )
        if self.simultaneous and not self.split_embedding:
            raise ValueError(
                "simultaneous=True has a batch for each learner in every step; received split_embedding=False, with "
                "which there are no learners."
            )
        if self.finetune == "embedding" and self.merge_at is None:
            raise ValueError("finetune='embedding' begins at merge_at; received merge_at=None.")

    def divides_data(self, epoch):
        """True where an epoch's batches come from clusters."""
        return self.divide_at <= epoch and (self.merge_at is None or epoch < self.merge_at)

    def divides_embedding(self, epoch):
        """True where learners take turns in an epoch; the whole embedding learns otherwise."""
        merged = self.merge_loss_at is not None and epoch >= self.merge_loss_at
        return self.split_embedding and self.divides_data(epoch) and not merged

    def divides_anew(self, epoch, is_divided=True):
        """True where an epoch begins with a new clustering; always where the data should be divided but are not yet."""
        first = epoch == self.divide_at or not is_divided
        again = self.data_split == "kmeans" and (epoch - self.divide_at) % self.recluster_every == 0
        return self.data_split != "none" and self.divides_data(epoch) and (first or again)

    def splits_embedding(self, epoch):
        """True where the embedding, whole in the epoch before, is split into learners."""
        return epoch > 0 and self.divides_embedding(epoch) and not self.divides_embedding(epoch - 1)

    def joins_embedding(self, epoch):
        """True where the learners of the epoch before are joined to the whole embedding."""
        return epoch > 0 and self.divides_embedding(epoch - 1) and not self.divides_embedding(epoch)

    def trains_embedding_alone(self, epoch):
        """True where the backbone stays as it is."""
        return self.finetune == "embedding" and epoch >= self.merge_at
