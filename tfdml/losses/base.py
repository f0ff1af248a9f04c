"""Base classes of all embedding losses and of losses that compare views of an image."""

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import check_classes, check_pairs_input, concrete, nan_with
from tfdml.functional.distances import distances, unit_length
from tfdml.functional.pairs import contradictory, finest, in_batch, is_graded, negative_pairs, positive_pairs
from tfdml.functional.triplets import Mined
from tfdml.layers.proxies import check_plain_keras
from tfdml.layers.view_heads import Projector
from tfdml.losses.miners import Miner, Mining
from tfdml.registry.arguments import Tensor, integer, several
from tfdml.registry.fields import OF_KERAS, Declared
from tfdml.registry.loss_hooks import LossHooks
from tfdml.registry.parts import create

Mean = Literal["anchors", "pairs", "nonzero", "none"]
Reduction = Literal["sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none"]


class _ExactLoss(keras.losses.Loss):
    """A Keras loss in float32 or float64. Keras also casts labels to its dtype, and large labels need the precision."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64 for losses. Received: dtype={kwargs['dtype']!r}.")


class EmbeddingLoss(Declared, LossHooks, _ExactLoss):
    """Base class of losses on labels `[B]` and embeddings `[B, d]`, with one value per anchor, `[B]`.

    You can pass these losses to `keras.Model.compile(loss=...)`. Integer class labels of any size are kept apart, and
    values are computed in float32 whatever the dtype policy. Losses on pairs also accept categories from coarse to
    fine, several labels per image, and given pairs; see `tfdml.functional.pairs`.

    To write your own loss, declare its arguments as fields (see `tfdml.registry.fields`) and compute its values in
    `call`:

    ```python
    class Length(EmbeddingLoss):
        margin: Annotated[float, number(at_least=0)] = 1.0

        def call(self, labels, embeddings):
            return ops.maximum(ops.norm(embeddings, axis=1) - self.margin, 0.0)
    ```

    Fields are arguments and attributes, and `get_config` returns them. A class that defines or inherits its own
    `__init__` keeps it, and must set the attributes itself.

    Args:
        reduction: Keras reduction of the values `[B]`: `"sum_over_batch_size"`, `"mean"`, `"sum"`,
            `"mean_with_sample_weight"`, `"none"` or `None`. Defaults to `"sum_over_batch_size"`, the mean over anchors.
        name: String or `None`. Name of the loss. If `None`, Keras derives it from the name of the class. Defaults to
            `None`.
        dtype: Precision of the values: `"float32"` or `"float64"`. Defaults to `"float32"`.

    Raises:
        ValueError: If `dtype` is neither float32 nor float64.
    """

    _: KW_ONLY
    reduction: Annotated[Reduction | None, OF_KERAS] = "sum_over_batch_size"
    name: Annotated[str | None, OF_KERAS] = None
    dtype: Annotated[Any, OF_KERAS] = "float32"

    # Hooks have the defaults of `LossHooks`, except that a loss on embeddings learns from pairs.
    needs_pairs = True
    # Whether labels only show which rows have the same class, so that each batch may number its classes.
    numbers_anew = True
    # Whether `call` accepts `queries`, so that the loss can compare a batch with past batches.
    takes_queries = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "call" in vars(cls):
            cls.takes_queries = "queries" in inspect.signature(cls.call).parameters

    def __call__(self, labels: Tensor, embeddings: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        check_plain_keras(self.sharded)
        labels, embeddings = self.check_input(labels, embeddings)
        check_classes(labels, self.label_classes(embeddings), type(self).__name__)
        if self.needs_pairs and self.batch_parts == 1 and not is_graded(labels):
            _warn_of_missing_pairs(type(self).__name__, finest(labels))
        numbers = in_batch(labels) if self.numbers_anew else labels
        values = nan_with(super().__call__(numbers, embeddings, sample_weight=sample_weight), embeddings, labels)
        # A compiled function cannot raise an error about values, so the loss is NaN instead.
        return values if len(labels.shape) == 1 else ops.where(contradictory(labels), float("nan"), values)

    def call(self, labels: Tensor, embeddings: Tensor, queries: int | None = None) -> Tensor:
        """Computes the loss of each row, `[B]`, or of the first `queries` rows, which are compared with all rows."""
        raise NotImplementedError(f"{type(self).__name__} must implement call(labels, embeddings).")

    @property
    def refuses_memory(self) -> str | None:
        """The reason why the loss cannot use cross-batch memory, or `None` if it can; see `LossHooks`."""
        if self.batch_parts > 1:
            return "the sampler determines its pairs"
        return None if self.takes_queries else "it compares more than each anchor with the other rows"

    def warn_of_unused(self, names: Sequence[str], reason: str) -> None:
        """Warns about arguments that are set but have no effect because of the value of the argument `reason`."""
        for name in names:
            if getattr(self, name) != self.fields[name].default:
                unused = f"{name}={getattr(self, name)!r} has no effect with {reason}={getattr(self, reason)!r}"
                warnings.warn(f"{type(self).__name__}: {unused}.", stacklevel=2)

    def label_classes(self, embeddings: Tensor) -> int | None:
        """Returns the number of classes if labels must be their indices, or `None` if any label is valid."""

    def check_input(self, labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Returns labels and embeddings as `call` uses them, or raises a ValueError if they are invalid."""
        return check_pairs_input(labels, embeddings)

    def statistics(self, labels: Tensor, embeddings: Tensor) -> dict[str, Tensor]:
        """Returns `active_anchors`, the fraction of anchors with a nonzero loss; see `LossHooks.statistics`.

        Losses that mine pairs return statistics of these pairs; see `tfdml.functional.statistics`.
        """
        return {"active_anchors": ops.mean(ops.cast(self.call(labels, embeddings) > 0, "float32"))}

    def get_config(self):
        return {**super().get_config(), "dtype": self.dtype, **self.own_config()}


def _warn_of_missing_pairs(name, labels):
    """Warns if a batch has no positive or no negative pair, unless labels are unknown in a compiled function."""
    values = concrete(labels)
    # Even a compiled function may know that a batch has one image.
    values = np.zeros(1) if values is None and labels.shape[0] == 1 else values
    classes = 0 if values is None else len(np.unique(values))
    if classes and classes in (1, len(values)):
        which, missing = ("equal", "negative") if classes == 1 else ("different", "positive")
        batch = "The batch has a single image" if len(values) == 1 else f"All labels of the batch are {which}"
        warnings.warn(
            f"{batch}, so {name} has no {'' if len(values) == 1 else f'{missing} '}pair to learn from. Use batches "
            "with several images of each of several classes, for example from tfdml.data.pxk.",
            stacklevel=3,
        )


class PairLoss(EmbeddingLoss):
    """Base class of losses on pairs or triplets of a batch, with a miner that selects them and a kind of mean.

    The terms of a loss are what its formula averages: pairs, triplets, or the values of anchors. `mean` determines how
    they are averaged over a batch. The values of anchors are scaled so that their own mean is the mean that you select.

    A subclass declares the argument `mining: Mining` with its default miner. Subclasses of `AllPairsLoss` have it
    already.

    Args:
        mean: `"anchors"` for the mean over an anchor's terms, then over all anchors; `"pairs"` for the mean over all
            terms of the batch; `"nonzero"` for the mean over the terms with a positive loss; `"none"` if an anchor's
            value is the sum of its terms. Defaults to `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If no miner has the name, or if it weights pairs and the loss cannot use weights.
    """

    _: KW_ONLY
    mean: Mean = "anchors"

    # Arguments that are passed on to the miner, if it has them.
    of_miner = ()
    # Whether pairs can have weights.
    weighs_pairs = False

    def check_arguments(self):
        offers = {name: getattr(self, name) for name in self.of_miner}
        self.miner: Miner = create("miner", self.mining, **offers)
        self.warn_of_unused([name for name in self.of_miner if name not in self.miner.fields], "mining")
        if self.miner.weighs and not self.weighs_pairs:
            raise ValueError(
                f"mining must be a miner that selects pairs in {type(self).__name__}, such as 'multi_similarity'. "
                f"Received: mining={self.mining!r}, which weights pairs."
            )

    @property
    def batch_parts(self):
        """The number of parts of a batch that the miner expects."""
        return self.miner.batch_parts

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory, or `None` if it can."""
        if self.miner.batch_parts == 1 and self.miner.needs_all_anchors:
            return f"the miner {self.miner.name!r} compares rows that are not anchors"
        return super().refuses_memory

    def mine(self, labels: Tensor, embeddings: Tensor, distance: Tensor, queries: int | None = None) -> Mined:
        """Returns the pairs and triplets that the miner selects, from distances `[B, B]` or `[queries, B]`."""
        return self.miner.mine(embeddings, distance, positive_pairs(labels, queries), negative_pairs(labels, queries))

    def selected(
        self, labels: Tensor, embeddings: Tensor, distance: Tensor, queries: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the positive and negative pairs that the miner selects: masks, or weights if the loss uses weights.

        Args:
            labels, embeddings: the arguments of `call`.
            distance: `[B, B]` or `[queries, B]`. For a loss on cosines, 1 minus the cosine.
            queries: number of anchors, or None.
        """
        mined = self.mine(labels, embeddings, distance, queries)
        positives, negatives = mined.pairs(distance.dtype)
        if self.weighs_pairs or mined.chosen is None:
            return positives, negatives
        return positives > 0.0, negatives > 0.0

    def averaged(self, total: Tensor, count: Tensor, nonzero: Tensor) -> Tensor:
        """Returns the values `[B]` of anchors from the sums of their terms, as `mean` specifies.

        Args:
            total: `[B]` sums of terms.
            count, nonzero: `[B]` number of terms, and of terms that are positive; or the sum of their weights.
        """
        if self.mean == "none":
            return total
        count = ops.stop_gradient(nonzero if self.mean == "nonzero" else count)
        if self.mean == "anchors":
            return total / ops.where(count == 0.0, 1.0, count)
        anchors = ops.cast(ops.shape(total)[0], total.dtype)
        # The expected number of pairs may be below 1 if pairs have weights.
        return total * (anchors / ops.maximum(ops.sum(count), 1.0))

    def of_pairs(self, costs: Tensor, pairs: Tensor) -> Tensor:
        """Returns the values `[B]` of anchors from the costs `[B, B]` of pairs and their mask or weights."""
        weights = ops.cast(pairs, costs.dtype)
        costs = ops.where(weights > 0.0, weights * costs, 0.0)
        sums = (ops.sum(each, axis=1) for each in (costs, weights, ops.where(costs > 0.0, weights, 0.0)))
        return self.averaged(*sums)

    def of_anchors(self, values: Tensor, have: Tensor) -> Tensor:
        """Returns the values `[B]` of anchors, each with a single term, or 0 for anchors that do not have one."""
        values, have = ops.where(have, values, 0.0), ops.cast(have, values.dtype)
        return self.averaged(values, have, ops.cast(values > 0.0, values.dtype))


class AllPairsLoss(PairLoss):
    """Base class of losses on pairs that use every pair unless another miner is selected.

    Args:
        mining: Name or spec of a miner, such as `"pair_margin(negative_margin=0.5)"`, or a `Miner`; see
            `tfdml.losses.miners`. Defaults to `"all"`, every pair.
        mean: see `PairLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    # Type checkers keep an argument at the place where a base class declares it. So losses in which `mining` is not
    # keyword-only must not inherit it.
    _: KW_ONLY
    mining: Mining = "all"


class DistanceLoss(PairLoss):
    """Base class of losses on pairs that are defined by a distance.

    A subclass declares the arguments `mining: Mining`, see `PairLoss`, and `distance: Text`, the name or spec of a
    distance, such as `"cosine"` or `"lp(p=1)"`; see `tfdml.losses.distances`.

    Args:
        mean: see `PairLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    def check_arguments(self):
        super().check_arguments()
        self.distances = create("distance", self.distance)

    def plain_distances(self, embeddings: Tensor) -> Tensor:
        """Returns Euclidean distances `[B, B]` for statistics, of L2-normalized embeddings if only angles count."""
        return distances(unit_length(embeddings) if self.distance == "cosine" else embeddings)


class ViewLoss(EmbeddingLoss):
    """Base class of losses that compare only the views of an image, which are rows with the same label.

    The papers' pairs (z, z') are each row with each other view of its image. Each pair counts in both orders, except in
    `BarlowTwins`. If labels are classes, all images of a class are views of each other.

    The loss receives the output of its layer, a projection of the embedding that only training needs. The models of
    `tfdml.methods` create the layer themselves. In plain Keras, the model that you train ends with it,
    `outputs = loss.make_layer()(embeddings)`.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    has_statistics = False
    refuses_memory = "it computes statistics of a batch and does not compare pairs"

    # Number of rows that the layer returns for each row of embeddings.
    rows_each = 1

    def check_input(self, labels, embeddings):
        embeddings, layer = ops.convert_to_tensor(embeddings), self.make_layer()
        if layer is None:
            return super().check_input(labels, embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != self.rows_each:
            name = type(self).__name__
            raise ValueError(
                f"{name} needs the output of its layer {type(layer).__name__}. Expected shape [batch, "
                f"{self.rows_each}, dim]. Received: shape={tuple(embeddings.shape)}. End the model that you train with "
                f"this layer: keras.Model(inputs, loss.make_layer()(embeddings)), with this {name} as `loss`."
            )
        labels, _ = check_pairs_input(labels, embeddings[:, 0])
        return labels, embeddings

    def statistics(self, labels: Tensor, embeddings: Tensor) -> dict[str, Tensor]:
        """Returns no statistics, because every pair of views has a loss."""
        del labels, embeddings
        return {}


class ProjectedLoss(ViewLoss):
    """Base class of view losses on projections by a `Projector` layer, or on embeddings without one.

    Args:
        projector: Sequence of integers. Units of the linear layers between embedding and loss; see
            `tfdml.layers.Projector`. With `()`, the loss receives the embeddings themselves. Defaults to
            `(1024, 1024)`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    projector: Annotated[Sequence[int], several(integer(1), at_least=0)] = (1024, 1024)

    def make_layer(self) -> Projector | None:
        return Projector(self.projector) if self.projector else None

    def projections(self, labels: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Returns labels and projections `[B, d]`, at least in float32, from the arguments of `call`."""
        embeddings = ops.convert_to_tensor(embeddings)
        return check_pairs_input(labels, embeddings[:, 0] if len(embeddings.shape) == 3 else embeddings)
