"""Regularizers of embeddings and proxies, which are terms of a weighted sum of losses."""

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from keras import ops

from tfdml.functional.checks import nan_with
from tfdml.functional.distances import cosines, squared_distances, unit_length
from tfdml.functional.pairs import log_sum_exp, other_rows
from tfdml.layers.loss_layer import ProxyCost
from tfdml.layers.tokens import CenterMerging
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, Tensor, number

Regularized = Literal["embeddings", "proxies"]


class Regularizer(EmbeddingLoss):
    """Base class of regularizers, which do not use labels and are added to a loss that does.

    A regularizer is a term of a sum, such as `--loss="proxy_anchor + 0.1*uniformity"`. It changes the embeddings of the
    batch, or the learned proxies of the other losses of the sum. To write your own, implement `cost`.

    Args:
        of: What is regularized: `"embeddings"` or `"proxies"`. Proxies need a sum with a loss that learns proxies.
            Defaults to `"embeddings"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]`, not used.
        embeddings: `[B, d]` of any length. With `of="proxies"`, `[B, 1]`, the output of the layer of the sum.
        queries: Integer or `None`. Number of first rows that are regularized. If `None`, all rows.

    Returns:
        `[B]`, one cost per row. If the cost is one of all rows or proxies together, every row has it.
    """

    _: KW_ONLY
    of: Regularized = "embeddings"

    needs_pairs = False

    def cost(self, rows: Tensor, per_class: int = 1) -> Tensor:
        """Returns what rows `[N, d]` cost, as a scalar or one value per row. Proxies of a class are adjacent rows."""
        raise NotImplementedError(f"{type(self).__name__} must implement cost(rows, per_class).")

    def call(self, labels, embeddings, queries=None):
        _, rows = self.check_input(labels, embeddings)
        # Past embeddings are constants, so they are not regularized.
        rows = rows[:queries]
        return rows[:, 0] if self.of == "proxies" else self.cost(rows) + ops.zeros_like(rows[:, 0])

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory if it regularizes proxies, or else `None`."""
        return "it regularizes proxies and does not compare images" if self.of == "proxies" else None

    def make_layer(self):
        return ProxyCost(self) if self.of == "proxies" else None

    def statistics(self, labels, embeddings):
        """Returns `regularization`, the mean cost, which shows how much the term weighs in a sum."""
        return {"regularization": ops.mean(self.call(labels, embeddings))}


@register("loss", "lp_norm")
class LpNorm(Regularizer):
    """Regularizes the length of embeddings: the Lp norm of each, to a power.

    The cost of a row x is `(sum_i |x_i|^p)^(power / p)`. Use it with embeddings that are not L2-normalized, for
    example with `single(normalize=False)`, because the length of normalized embeddings does not change. With `power=2`,
    it is the regularizer of the N-pair loss (Sohn 2016).

    Args:
        p: Float of at least 1. Which norm. Defaults to `2.0`.
        power: Float. Exponent of the norm. Larger values shorten long rows more. Defaults to `1.0`.
        of, reduction, name, dtype: see `Regularizer`.

    Example:

    ```python
    embeddings = np.array([[3, 4], [0, 0]], "float32")
    tfdml.losses.LpNorm(power=2.0)(np.array([0, 1]), embeddings)  # 12.5
    ```
    """

    p: Annotated[float, number(at_least=1)] = 2.0
    power: Positive = 1.0

    def cost(self, rows, per_class=1):
        size = ops.abs(rows)
        # Divided by the largest entry, no power overflows, and the gradient of a row of zeros is 0.
        largest = ops.stop_gradient(ops.max(size, axis=1))
        present = ops.logical_not(largest <= 0.0)
        scale = ops.where(present, largest, 1.0)
        sums = ops.sum((size / scale[:, None]) ** self.p, axis=1)
        return ops.where(present, (scale * ops.where(present, sums, 1.0) ** (1.0 / self.p)) ** self.power, 0.0)


@register("loss", "zero_mean")
class ZeroMean(Regularizer):
    """Regularizes the sum of each embedding's components, which becomes 0.

    The cost of a row x is `|sum_i x_i|`, the zero-mean regularizer of pytorch-metric-learning. No embedding can then be
    large in all of its components.

    Args:
        of, reduction, name, dtype: see `Regularizer`.

    Example:

    ```python
    embeddings = np.array([[0.6, 0.8], [0.6, -0.8]], "float32")
    tfdml.losses.ZeroMean()(np.array([0, 1]), embeddings)  # 0.8
    ```
    """

    def cost(self, rows, per_class=1):
        return ops.abs(ops.sum(rows, axis=1))


@register("loss", "center_invariance")
class CenterInvariance(Regularizer):
    """Regularizes the lengths of proxies, which become equal, so that no class has an advantage in a softmax.

    The cost of a proxy w is `(|w|^2 - m)^2 / 4`, where m is the mean of `|w|^2` over all proxies: Wu et al., Deep Face
    Recognition with Center Invariant Loss, 2017. tfdml losses compare only the directions of proxies, so for them it
    only keeps the steps of all proxies equally large.

    Args:
        of: see `Regularizer`. Defaults to `"proxies"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0, 2]], "float32")
    tfdml.losses.CenterInvariance(of="embeddings")(np.array([0, 1]), embeddings)  # 0.5625
    ```
    """

    _: KW_ONLY
    of: Regularized = "proxies"

    def cost(self, rows, per_class=1):
        squared = ops.sum(ops.square(rows), axis=1)
        return ops.square(squared - ops.mean(squared)) / 4.0


@register("loss", "regular_face")
class RegularFace(Regularizer):
    """Regularizes the largest cosine of each proxy to a proxy of another class, which spreads the classes.

    The cost of a proxy is its cosine to the nearest proxy of another class: Zhao et al., RegularFace: Deep Face
    Recognition via Exclusive Regularization, 2019. Memory grows with the square of the number of proxies.

    Args:
        of: `"embeddings"` or `"proxies"`, see `Regularizer`. Every embedding counts as a class. Defaults to
            `"proxies"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1]], "float32")
    tfdml.losses.RegularFace(of="embeddings")(np.array([0, 1, 2]), embeddings)  # 0.733
    ```
    """

    _: KW_ONLY
    of: Regularized = "proxies"

    def cost(self, rows, per_class=1):
        classes = ops.arange(ops.shape(rows)[0], dtype="int32") // per_class
        others = classes[:, None] != classes[None, :]
        nearest = ops.max(ops.where(others, cosines(rows), -2.0), axis=1)
        return ops.where(ops.any(others, axis=1), nearest, 0.0)


@register("loss", "sparse_centers")
class SparseCenters(Regularizer):
    """Regularizes the distances between the proxies of a class, which merges proxies that are not needed.

    The cost is the one of `tfdml.layers.CenterMerging` with a weight of 1, so `soft_triple(merging=0.2)` is
    `soft_triple(merging=0) + 0.2*sparse_centers`. Use it with other losses that have several proxies per class, such as
    `sub_center_arc_face`.

    Args:
        of: Always `"proxies"`. Defaults to `"proxies"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If the classes have only one proxy.

    Example:

    ```python
    classifier = tfdml.losses.SubCenterArcFace(classes=3, per_class=2)
    loss = tfdml.losses.WeightedSum([(1.0, classifier), (0.2, tfdml.losses.SparseCenters())])
    loss.make_layer()(np.ones((2, 4), "float32")).shape  # (2, 1, 7)
    ```
    """

    _: KW_ONLY
    of: Literal["proxies"] = "proxies"

    def cost(self, rows, per_class=1):
        if per_class == 1:
            raise ValueError(
                "sparse_centers merges the proxies of a class, but the classes have only one proxy. Set per_class of "
                "the other loss of the sum to at least 2, or remove sparse_centers."
            )
        return CenterMerging(per_class, weight=1.0)(rows)


@register("loss", "anti_collapse")
class AntiCollapse(Regularizer):
    """Regularizes the volume that embeddings fill: minus half the log-determinant of their Gram matrix.

    The cost is `-log(det(I + d / (N epsilon^2) X X^T)) / 2` for N rows X at unit length, minus their coding rate. It is
    lowest if the rows vary equally in all d directions. From Jiang et al., Anti-Collapse Loss for Deep Metric Learning
    Based on Coding Rate Metric, 2024, as we understand it; we have not compared it with the authors' code.

    Use it if `effective_rank` shows that embeddings use few directions. Costs are negative. Memory grows with the
    square of the number of dimensions, or of rows if there are fewer and their number is fixed.

    Args:
        epsilon: Float. Precision of the coding rate. Smaller values also count directions with little variance.
            Defaults to `0.5`, as in Yu et al., Learning Diverse and Discriminative Representations, 2020.
        of, reduction, name, dtype: see `Regularizer`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0, 1]], "float32")
    tfdml.losses.AntiCollapse()(np.array([0, 1]), embeddings)  # -1.609
    ```
    """

    epsilon: Positive = 0.5

    def cost(self, rows, per_class=1):
        rows = unit_length(rows)
        dim = rows.shape[1]
        factor = dim / (self.epsilon**2 * ops.cast(ops.shape(rows)[0], rows.dtype))
        # The determinants of I + X X^T and I + X^T X are equal.
        few = rows if rows.shape[0] is not None and rows.shape[0] < dim else ops.transpose(rows)
        identity = ops.eye(few.shape[0], dtype=rows.dtype)
        gram = identity + factor * ops.matmul(few, ops.transpose(few))
        # TensorFlow raises an error for NaN, so the value is computed without it.
        triangle = ops.cholesky(ops.where(ops.any(ops.isnan(gram)), identity, gram))
        # The sum of the logarithms of the diagonal is half of the log-determinant.
        return nan_with(-ops.sum(ops.log(ops.diagonal(triangle))), gram)


@register("loss", "uniformity")
class Uniformity(Regularizer):
    """Regularizes how evenly embeddings cover the sphere: the logarithm of the mean Gaussian potential of pairs.

    The cost is `log(mean_(i != j) exp(-t |x_i - x_j|^2))` for rows at unit length, which is lowest if they are spread
    evenly. From Wang and Isola, Understanding Contrastive Representation Learning through Alignment and Uniformity on
    the Hypersphere, 2020. Costs are negative. The metric `uniformity` measures the same.

    Args:
        t: Float. With larger values, only near pairs count. Defaults to `2.0`.
        of, reduction, name, dtype: see `Regularizer`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0, 1]], "float32")
    tfdml.losses.Uniformity()(np.array([0, 1]), embeddings)  # -4.0
    ```
    """

    t: Positive = 2.0

    def cost(self, rows, per_class=1):
        others = other_rows(rows[:, 0])
        of_rows = log_sum_exp(others, -self.t * squared_distances(unit_length(rows)))
        total = log_sum_exp(ops.ones_like(others[:1]), of_rows[None])[0]
        pairs = ops.sum(ops.cast(others, rows.dtype))
        return ops.where(pairs > 0.0, total - ops.log(ops.maximum(pairs, 1.0)), 0.0)


@register("loss", "decorrelation")
class Decorrelation(Regularizer):
    """Regularizes the covariances between different dimensions, so that dimensions do not vary together.

    The cost is `sum_(i != j) C_ij^2 / 2`, where C is the covariance matrix of rows at unit length: Cogswell et al.,
    Reducing Overfitting in Deep Networks by Decorrelating Representations, 2016, who apply it to activations of any
    length.

    Args:
        of, reduction, name, dtype: see `Regularizer`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0, 1]], "float32")
    tfdml.losses.Decorrelation()(np.array([0, 1]), embeddings)  # 0.0625
    ```
    """

    def cost(self, rows, per_class=1):
        rows = unit_length(rows)
        middle = rows - ops.mean(rows, axis=0, keepdims=True)
        covariance = ops.matmul(ops.transpose(middle), middle) / ops.cast(ops.shape(rows)[0], rows.dtype)
        return (ops.sum(ops.square(covariance)) - ops.sum(ops.square(ops.diagonal(covariance)))) / 2.0
