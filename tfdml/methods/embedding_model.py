"""The base of all methods: images to learner embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

import keras
import tensorflow as tf

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml import registry
from tfdml.callbacks.base import TrainingParts
from tfdml.functional.checks import loss_dtype
from tfdml.heads import Head
from tfdml.layers.norms import layers_in
from tfdml.methods.memories import XBM
from tfdml.methods.step.first_batch import PixelCheck
from tfdml.methods.step.global_batch_model import GlobalBatchModel
from tfdml.methods.step.loss_layers import LABELS, LossLayers, LossStatistics, statistics_of
from tfdml.methods.step.parts import CompileArguments, anchor_values
from tfdml.methods.step.past_batches import past_batches_of
from tfdml.methods.step.replicas import prepare_batch_norms
from tfdml.methods.step.restrictions import check_compile_arguments, check_shards
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.optimizers.optimizers import without_loss_scaling
from tfdml.registry.arguments import FrozenBatchNorm, ModelArguments, Tensor
from tfdml.registry.fields import Declared


class EmbeddingModel(Declared, GlobalBatchModel):
    """Maps images to K learner embeddings `[B, K, d]`, and trains them with a loss on the global batch.

    A subclass says how: `learner_embeddings`. Calling the model gives `[B, K * d]`, the learners side by side at
    unit length: the embedding for retrieval. `fit`, `predict`, `save` and `export` are Keras'.

    A method of one learner may set `normalize` to False, and leave its embeddings as long as they are.

    Under a distribution strategy every replica sees the embeddings of all of them, computes the whole loss, and
    divides it by their number; the step is the one that a single device would take.

    Args:
        backbone: the network that may begin with pretrained weights, saved with the model; None if the method has its
            own.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
        head: one of `tfdml.heads`, saved with the model; None if the method takes none.
        preprocessing: `tfdml.Preprocessing` of the images that the model takes, saved with it for `tfdml.load`; None
            where it is not known.
    """

    # Whether embeddings are brought to unit length.
    normalize = True
    # Whether learners take turns, each with batches of its own.
    turns = False

    def __init__(
        self,
        backbone: keras.layers.Layer | None = None,
        freeze_batch_norm: FrozenBatchNorm | str = "none",
        head: Head | None = None,
        preprocessing: Preprocessing | VectorPreprocessing | None = None,
        **kwargs: Unpack[ModelArguments],
    ):
        super().__init__(**kwargs)
        self.backbone = backbone
        self.freeze_batch_norm = freeze_batch_norm
        self._head = head
        self.preprocessing = preprocessing
        self.check_pixels = PixelCheck(self)
        self.loss_layers = LossLayers(name="loss_layers")
        self._learners_shape = None
        self._statistics = LossStatistics()

    def learner_embeddings(self, images: Tensor, training: bool = False) -> tf.Tensor:
        """Embeddings `[B, K, d]` of images `[B, H, W, 3]`, at unit length in each learner."""
        raise NotImplementedError(f"{type(self).__name__} needs the method learner_embeddings(images, training).")

    def places(self, images: Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Divides the learner embeddings of images among the places of the last feature map, and a rest.

        Returns:
            `[B, h, w, K, d]` and `[B, K, d]`: the sum of all over places, and the rest, are `learner_embeddings`.
        """
        raise ValueError(
            f"{type(self).__name__} cannot tell what the places of an image contribute: its embedding is no linear "
            "function of one pooled feature map."
        )

    def backbones(self) -> list[keras.layers.Layer]:
        """The networks that may begin with pretrained weights."""
        return [] if self.backbone is None else [self.backbone]

    def embedding_layers(self) -> list[keras.layers.Layer]:
        """The layers from features to embeddings."""
        return []

    def wrap_sampler(self, sampler: Any) -> Any:
        """The sampler of training batches, made of the one that the user chose; `tfdml.train` asks for it."""
        return sampler

    def callbacks(self, parts: TrainingParts) -> dict[str, keras.callbacks.Callback]:
        """Callbacks that training needs, by name; `tfdml.train` adds them. Their state is saved with checkpoints.

        Each has `get_state()`, `set_state(state)`, and `finding()`: what the result says of it under its name, or None.

        Args:
            parts: `tfdml.callbacks.base.TrainingParts`.
        """
        del parts
        return {}

    def of_one_learner(self) -> Self | None:
        """A new model with one such learner, to tell what it costs alone; None where learners share all but a slice."""
        return None

    def pictures(self) -> list[str]:
        """Names of the pictures that `tfdml.report` can draw of this model, beside those of all models."""
        return []

    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """Name to variables of the layer groups that optimizers know beside layers' names."""
        backbones = [variable for backbone in self.backbones() for variable in backbone.variables]
        embedding = [variable for layer in self.embedding_layers() for variable in layer.variables]
        return {"backbone": backbones, "embedding": embedding, "loss": self.loss_layers.variables}

    def call(self, images, training=False, merged=True):
        if tf.executing_eagerly():
            self.check_pixels(images)
        if self._learners_shape is None:
            prepare_batch_norms(self)
        learners = self.learner_embeddings(images, training=training)
        if self._learners_shape is None:
            self._make_loss_layers(learners.shape[1:])
            self._learners_shape = tuple(learners.shape[1:])
        return self.for_retrieval(learners) if merged else learners

    def for_retrieval(self, learners) -> tf.Tensor:
        return super().for_retrieval(learners) if self.normalize else learners[:, 0]

    @property
    def learners_shape(self) -> tuple[int, int] | None:
        """Number K of learners, and dimensions d of each; None before the model has seen images."""
        return self._learners_shape

    @property
    def learner_count(self) -> int | None:
        """Number K of learners; None before the model has seen images."""
        return self._learners_shape and self._learners_shape[0]

    def loss_values(self, batch: Mapping[str, Tensor], learners: Tensor, training: bool = False) -> tf.Tensor:
        """Loss `[B]` of each anchor, summed over learners `[B, K, d]`; `batch` is what there is of `{"label": [B]}`."""
        labels, keys = batch["label"], batch.get("keys")
        each = [(k, learners[:, k]) for k in range(learners.shape[1])]
        if training and self.past_batches:
            return sum(self.past_batches.values(self.loss, k, labels, embeddings, keys) for k, embeddings in each)
        return sum(anchor_values(self.loss, labels, self.loss_layers.inputs_of(k, labels, rows)) for k, rows in each)

    def training_metrics(self) -> list[keras.metrics.Metric]:
        return self._statistics.metrics

    def seen_by_loss(self, batch: Mapping[str, Tensor], learners: Tensor) -> Sequence[tuple[Tensor, Tensor, Any]]:
        """Labels `[n]` and embeddings `[n, d]` of each place in `loss_dims`, and whether the loss sees them."""
        return [(batch["label"], learners[:, k], True) for k in range(learners.shape[1])]

    def observe(self, batch, learners) -> None:
        """Adds what the loss finds in a training batch to the statistics of the epoch."""
        seen = self.seen_by_loss(batch, tf.stop_gradient(learners))
        statistics = [
            self._statistics_of(place, labels, embeddings) for place, (labels, embeddings, _) in enumerate(seen)
        ]
        self._statistics.update(statistics, [counts for _, _, counts in seen])

    def loss_statistics(self) -> dict[str, float]:
        """Means over an epoch of what the loss finds in its batches, by name; see `EmbeddingLoss.statistics`.

        Names of learners end with `_of_learner_0` and so on where there are several.
        """
        by_place, learners = self._statistics.result(), self.learner_count
        suffixes = [f"_of_learner_{k}" if k < learners and len(by_place) > 1 else "" for k in range(len(by_place))]
        each = zip(suffixes, by_place, strict=True)
        return {f"{name}{suffix}": value for suffix, values in each for name, value in values.items()}

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | LayerGroups | str = "adam",
        loss: keras.losses.Loss | str | None = None,
        metrics: None = None,
        loss_weights: None = None,
        weighted_metrics: None = None,
        pieces: int = 1,
        memory: XBM | str | None = None,
        **kwargs: Unpack[CompileArguments],
    ):
        """Keras' compile.

        The loss is one of `tfdml.losses`, its spec (`"triplet(margin=0.1)"`), or any `keras.losses.Loss` whose
        `call(labels [B], embeddings [B, d])` gives `[B]`. A step embeds the batch in this many `pieces`, one after
        the other, which takes less memory and more time; see `tfdml.methods.step.global_batch_model`. A `memory` of
        `tfdml.memories`, or its spec (`"xbm(size=8192)"`), compares batches with past ones, too.
        """
        loss = registry.create("loss", loss) if isinstance(loss, str) else loss
        unsupported = {"metrics": metrics, "loss_weights": loss_weights, "weighted_metrics": weighted_metrics}
        check_compile_arguments(self.distribute_strategy, optimizer, loss, unsupported, pieces, kwargs)
        self.pieces = pieces
        self.past_batches = past_batches_of(memory, self, loss)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        check_shards(self, loss)
        if self._learners_shape is not None:
            self._make_loss_layers(self._learners_shape)
        self.prepare_optimizer(without_loss_scaling(self.optimizer))

    def prepare_optimizer(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Tells a new optimizer what it has to know of the model; `compile` calls it."""
        if isinstance(optimizer, LayerGroups):
            optimizer.name_groups(self.variable_groups)
            optimizer.name_blocks(lambda: [block.variables for block in self.blocks()])

    def get_config(self):
        own = {"freeze_batch_norm": self.freeze_batch_norm}
        if self.backbone is not None:
            own["backbone"] = keras.saving.serialize_keras_object(self.backbone)
        if self._head is not None:
            own["head"] = keras.saving.serialize_keras_object(self._head)
        if self.preprocessing is not None:
            own["preprocessing"] = self.preprocessing.get_config()
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        saved = {name: config[name] for name in ("backbone", "head") if name in config}
        config = {**config, **keras.saving.deserialize_keras_object(saved, custom_objects=custom_objects)}
        with layers_in(config.get("dtype")):
            return cls(**config)

    def loss_dims(self, learners: int, dim: int) -> list[int]:
        """Dimensions of what each layer of the loss stands behind: the learners."""
        return [dim] * learners

    def _make_loss_layers(self, learners_shape):
        if self.compiled:
            with self.distribute_strategy.scope():
                dims = self.loss_dims(*learners_shape)
                self.loss_layers.make(self.loss, dims)
                if self.past_batches:
                    self.past_batches.make(dims, loss_dtype(self.compute_dtype), self)
                names = self._statistics_of(0, tf.constant(LABELS), tf.zeros((len(LABELS), dims[0])))
                self._statistics.make(names, len(dims))

    def _statistics_of(self, place, labels, embeddings):
        """Scalars by name of the embeddings `[B, d]` of a place in `loss_dims`."""
        return statistics_of(self.loss, labels, embeddings, lambda *of: self.loss_layers.inputs_of(place, *of))
