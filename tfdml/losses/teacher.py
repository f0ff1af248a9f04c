"""Losses that compare embeddings with the vectors of a teacher or of the initial model."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import other_rows
from tfdml.layers.references import BesideReference
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, Tensor
from tfdml.registry.loss_hooks import INITIAL, TEACHER


class ReferenceLoss(EmbeddingLoss):
    """Base class of losses that compare each embedding with the vector that another network computed for the image.

    The batch has these reference vectors as a target with the name in `references`, next to the labels:
    `model.fit(images, {"label": labels, "teacher": vectors})`. `tfdml.train` computes them once, from images without
    augmentation. Labels are not used, so every image can have another one. In plain Keras, call the layer that
    `make_layer` returns with the embeddings and the vectors.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    needs_pairs = False
    refuses_memory = "the memory has no reference vectors of past images"

    def with_levels(self, loss, by_level):
        # Vectors have no classes, so they have no levels.
        return loss

    def halves(self, labels: Tensor, taken: Tensor, dims: int) -> tuple[Tensor, Tensor]:
        """Returns the embeddings and the reference vectors `[B, dims]` in the output of the layer."""
        _, taken = check_pairs_input(labels, taken)
        if taken.shape[1] <= dims:
            raise ValueError(
                f"{type(self).__name__} needs the output of its layer BesideReference, an embedding followed by a "
                f"vector of {dims} dimensions. Received: shape={tuple(taken.shape)}."
            )
        return taken[:, :-dims], taken[:, -dims:]

    def statistics(self, labels, taken):
        """Returns `<reference>_distance`, the mean loss, which shows how much the term weighs in a sum."""
        return {f"{each}_distance": ops.mean(self.call(labels, taken)) for each in self.references}


@register("loss", "teacher")
class Teacher(ReferenceLoss):
    """Computes how far embeddings are from a teacher's embeddings of the same images (distillation).

    A small network, the student, learns to embed like a large one, with or without labels. For an image with the
    embedding x and the teacher's vector t:

    - With `form="vectors"`, the loss is `1 - cos(P x, t)`, or `|P x - t|^2` with `distance="euclidean"`. P is a learned
      linear layer, so that the teacher's vectors can have any number of dimensions. With `projection=False`, P is left
      out: student and teacher then share a space, and their embeddings can be compared with each other.
    - With `form="pairs"`, the loss of image i is the mean over the other images j of
      `(cos(x_i, x_j) - cos(t_i, t_j))^2`. It compares similarities, so it needs no projection (relational
      distillation; Park et al., Relational Knowledge Distillation, 2019, and similar losses since).

    Add it to a loss on labels, as in `--loss="triplet + 0.5*teacher"`, or use it alone. `--teacher` sets the teacher of
    a run.

    Args:
        form: `"vectors"` or `"pairs"`. Defaults to `"vectors"`.
        distance: `"cosine"` or `"euclidean"`. How to compare vectors. Only used with `form="vectors"`. Defaults to
            `"cosine"`.
        projection: Boolean. Whether to project embeddings to the teacher's dimensions. Only used with
            `form="vectors"`. Defaults to `True`.
        teacher_dims: Integer or `None`. Number of dimensions of the teacher's vectors. `tfdml.train` sets it. Defaults
            to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]`, not used.
        taken: the output of the layer `BesideReference`: embeddings and the teacher's vectors, side by side.

    Returns:
        `[B]`, one loss per image.

    Raises:
        ValueError: If `teacher_dims` is missing, or if embeddings have another size and `projection` is `False`.

    Example:

    ```python
    student = np.array([[1, 0], [0.8, 0.6]], "float32")
    teacher = np.array([[1, 0], [0, 1]], "float32")
    loss = tfdml.losses.Teacher(projection=False, teacher_dims=2)
    loss(np.array([0, 1]), np.concatenate([student, teacher], axis=1))  # 0.2
    ```
    """

    form: Literal["vectors", "pairs"] = "vectors"
    distance: Literal["cosine", "euclidean"] = "cosine"
    projection: bool = True
    teacher_dims: Count | None = None

    references = (TEACHER,)

    def check_arguments(self):
        if self.form == "pairs":
            self.warn_of_unused(["distance", "projection"], "form")

    def make_layer(self):
        return BesideReference(TEACHER, dims=self._dims(), projection=self.form == "vectors" and self.projection)

    @property
    def shares_space(self) -> bool:
        """Whether embeddings of the student are compared with the teacher's without a projection."""
        return self.form == "vectors" and not self.projection

    def call(self, labels, taken):
        rows, vectors = self.halves(labels, taken, self._dims())
        if self.form == "pairs":
            return _of_pairs(unit_length(rows), unit_length(vectors))
        if rows.shape[1] != vectors.shape[1]:
            raise ValueError(
                f"Without a projection, embeddings must have the teacher's {vectors.shape[1]} dimensions. Received: "
                f"embeddings of {rows.shape[1]} dimensions. Set --embedding_size={vectors.shape[1]}, or use "
                "teacher(projection=True) or teacher(form='pairs')."
            )
        if self.distance == "euclidean":
            return ops.sum(ops.square(rows - vectors), axis=1)
        return 1.0 - ops.sum(unit_length(rows) * unit_length(vectors), axis=1)

    def _dims(self):
        if self.teacher_dims is None:
            raise ValueError(
                "The loss teacher needs a teacher. Set --teacher to a run, a .keras file or a folder of embeddings. In "
                "Python, set teacher_dims, the number of dimensions of the teacher's vectors."
            )
        return self.teacher_dims


def _of_pairs(rows, vectors):
    """Returns the mean squared difference `[B]` between the cosines of each row and of each vector with the others."""
    apart = ops.matmul(rows, ops.transpose(rows)) - ops.matmul(vectors, ops.transpose(vectors))
    others = ops.cast(other_rows(rows[:, 0]), rows.dtype)
    return ops.sum(others * ops.square(apart), axis=1) / ops.maximum(ops.sum(others, axis=1), 1.0)


@register("loss", "toward_initial")
class TowardInitial(ReferenceLoss):
    """Computes how far a model has moved from its initial state, which keeps what a pretrained network knows.

    Fine-tuning improves retrieval in the training classes but often harms it for other images. This term limits the
    harm. Add it to another loss, as in `--loss="n_pair + 0.01*toward_initial(of='weights')"`:

    - With `of="embeddings"`, the loss of an image is `|x - x_0|^2`, where x and x_0 are its L2-normalized embeddings
      now and by the initial model. It needs an initial embedding that is not random; see `--initial_embedding`.
    - With `of="weights"`, it is `|w - w_0|^2` over all trainable weights w of the backbone, as in Li et al., Explicit
      Inductive Bias for Transfer Learning with Convolutional Networks, 2018. The training step of tfdml models adds it
      to the loss of a batch. The initial weights are the weights when the training of a compiled model starts.

    Both penalties together are used by Ypsilantis et al., Infusing Fine-Grained Visual Knowledge to
    Vision-Language Models, 2025, as we understand it.

    Args:
        of: `"embeddings"` or `"weights"`. Defaults to `"embeddings"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]`, not used.
        taken: the output of the layer `BesideReference`, embeddings now and before, side by side `[B, 2 d]`.
            With `of="weights"`, embeddings.
        queries: Integer or `None`. Number of anchors, with `of="weights"`. If `None`, every row is one.

    Returns:
        `[B]`, one loss per image. With `of="weights"`, zeros.

    Raises:
        ValueError: If a model that is not a tfdml model is trained with `of="weights"`.

    Example:

    ```python
    now, before = np.array([[0.8, 0.6], [0, 1]], "float32"), np.array([[1, 0], [0, 1]], "float32")
    tfdml.losses.TowardInitial()(np.array([0, 1]), np.concatenate([now, before], axis=1))  # 0.2
    ```
    """

    of: Literal["embeddings", "weights"] = "embeddings"

    @property
    def references(self):
        """The names of the targets with reference vectors."""
        return (INITIAL,) if self.of == "embeddings" else ()

    @property
    def weights_penalty(self):
        """The factor of the squared distance between the weights and their initial values."""
        return 1.0 if self.of == "weights" else 0.0

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory, or `None` if it can."""
        return ReferenceLoss.refuses_memory if self.of == "embeddings" else None

    def make_layer(self):
        return BesideReference(INITIAL) if self.of == "embeddings" else None

    def __call__(self, labels, embeddings, sample_weight=None):
        if self.of == "weights":
            raise ValueError(
                "toward_initial(of='weights') compares weights, which a loss in plain Keras does not know. Train a "
                "tfdml model, such as tfdml.Single."
            )
        return super().__call__(labels, embeddings, sample_weight)

    def call(self, labels, taken, queries=None):
        if self.of == "weights":
            return ops.zeros_like(check_pairs_input(labels, taken)[1][:queries, 0])
        now, before = self.halves(labels, taken, max(taken.shape[1] // 2, 1))
        return ops.sum(ops.square(unit_length(now) - unit_length(before)), axis=1)
