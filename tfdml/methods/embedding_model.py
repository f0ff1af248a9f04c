"""Base class of all methods: a Keras model from images to learner embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

import keras
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml import registry
from tfdml.callbacks.base import TrainingParts
from tfdml.functional.checks import loss_dtype
from tfdml.heads import Head
from tfdml.layers.norms import batch_norms, freeze_batch_norm, layers_in
from tfdml.methods.memories import XBM
from tfdml.methods.step.first_batch import PixelCheck
from tfdml.methods.step.global_batch_model import GlobalBatchModel
from tfdml.methods.step.initial_weights import InitialWeights
from tfdml.methods.step.loss_layers import LABELS, LossLayers, LossStatistics, statistics_of
from tfdml.methods.step.parts import CompileArguments, anchor_values
from tfdml.methods.step.past_batches import past_batches_of
from tfdml.methods.step.restrictions import (
    check_compile_arguments,
    check_references,
    check_shards,
    warn_of_missing_loss,
)
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.optimizers.optimizers import without_loss_scaling
from tfdml.registry.arguments import FrozenBatchNorm, ModelArguments, Tensor
from tfdml.registry.fields import Declared
from tfdml.registry.loss_hooks import ANCHOR, INITIAL, hooks_of
from tfdml.runtime.backends import strategy_of


class EmbeddingModel(Declared, GlobalBatchModel):
    """Base class of Keras models that map images to one or several embeddings and train them with a metric loss.

    Subclass it to write your own method, and implement `learner_embeddings`. Calling the model returns the embedding
    for retrieval, of shape `[B, K * d]`: the embeddings of the K learners, concatenated and L2-normalized. `fit`,
    `predict`, `save` and `export` work as for every Keras model. A method with one learner can set the attribute
    `normalize` to `False` to return its embeddings without normalization.

    Under a distribution strategy, each replica gathers the embeddings of all replicas, computes the whole loss and
    divides it by the number of replicas. The step is the same as on a single device.

    Args:
        backbone: Network that can have pretrained weights. It is saved with the model. If `None`, the method creates
            its own layers. Defaults to `None`.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        head: One of `tfdml.heads`, which is saved with the model, or `None` if the method has no head. Defaults to
            `None`.
        preprocessing: `tfdml.Preprocessing` of the images, which is saved with the model for `tfdml.load`, or `None` if
            it is not known. Defaults to `None`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If `compile` or `fit` receives arguments that the training step does not support.

    Example:

    ```python
    class Flat(tfdml.EmbeddingModel):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.layer = keras.layers.Dense(4)

        def learner_embeddings(self, images, training=False):
            embeddings = self.layer(keras.ops.reshape(images, [-1, 8 * 8 * 3]))
            return keras.ops.normalize(embeddings, axis=-1)[:, None]


    images, labels = np.random.uniform(-2, 2, (8, 8, 8, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = Flat()
    model.compile("adam", "triplet")
    history = model.fit(images, labels, verbose=0)
    model.predict(images, verbose=0).shape  # (8, 4)
    ```
    """

    # Whether embeddings are L2-normalized.
    normalize = True
    # Whether learners are trained in turns, each with separate batches.
    turns = False
    # Why the loss cannot use reference vectors, as part of a sentence, or empty if it can.
    no_references = ""

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

    def learner_embeddings(self, images: Tensor, training: bool = False) -> Tensor:
        """Computes the L2-normalized embedding of each learner. Subclasses must implement it.

        Args:
            images: `[B, H, W, 3]` preprocessed images.
            training: Boolean. Whether the model is being trained. Defaults to `False`.

        Returns:
            Tensor of shape `[B, K, d]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement learner_embeddings(images, training).")

    def places(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Computes how much each position of the last feature map contributes to the embeddings.

        Args:
            images: `[B, H, W, 3]` preprocessed images.

        Returns:
            Contributions `[B, h, w, K, d]` and the remainder `[B, K, d]`. The sum of the contributions over all
            positions, plus the remainder, is equal to `learner_embeddings`.

        Raises:
            ValueError: If the embedding is not a linear function of one pooled feature map.
        """
        raise ValueError(
            f"{type(self).__name__} cannot determine how much each position of an image contributes, because its "
            "embedding is not a linear function of one pooled feature map."
        )

    def backbones(self) -> list[keras.layers.Layer]:
        """Returns the networks that can have pretrained weights."""
        return [] if self.backbone is None else [self.backbone]

    def embedding_layers(self) -> list[keras.layers.Layer]:
        """Returns the layers from features to embeddings."""
        return []

    def wrap_sampler(self, sampler: Any) -> Any:
        """Wraps the sampler of the training batches if the method needs special batches. `tfdml.train` calls it.

        Args:
            sampler: Sampler that the user chose.

        Returns:
            Sampler.
        """
        return sampler

    def callbacks(self, parts: TrainingParts) -> dict[str, keras.callbacks.Callback]:
        """Returns the callbacks that training requires. `tfdml.train` adds them and saves their state in checkpoints.

        Each callback has the methods `get_state()`, `set_state(state)` and `finding()`. The last one returns what the
        results of a run contain under the name of the callback, or `None`.

        Args:
            parts: `tfdml.callbacks.base.TrainingParts`.

        Returns:
            Dictionary from names to callbacks.
        """
        del parts
        return {}

    def of_one_learner(self) -> Self | None:
        """Returns a new model with one such learner, to measure its cost, or `None` if learners are slices."""
        return None

    def pictures(self) -> list[str]:
        """Returns the names of additional figures that `tfdml.report` can draw for this model."""
        return []

    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """Returns the layer groups of the model for optimizers: a dictionary from name to variables."""
        backbones = [variable for backbone in self.backbones() for variable in backbone.variables]
        embedding = [variable for layer in self.embedding_layers() for variable in layer.variables]
        return {"backbone": backbones, "embedding": embedding, "loss": self.loss_layers.variables}

    def call(self, images, training=False, merged=True):
        if self.executes_now():
            self.check_pixels(images)
        if self._learners_shape is None:
            for number, backbone in enumerate(self.backbones()):
                # Copies of a part may have no batch normalization, but freezing must be possible in the backbone.
                if number == 0 or batch_norms(backbone):
                    freeze_batch_norm(backbone, self.freeze_batch_norm)
            self.prepare_batch_norms(self)
        learners = self.learner_embeddings(images, training=training)
        if self._learners_shape is None:
            self._make_loss_layers(learners.shape[1:])
            self._learners_shape = tuple(learners.shape[1:])
        return self.for_retrieval(learners) if merged else learners

    def for_retrieval(self, learners) -> Tensor:
        return super().for_retrieval(learners) if self.normalize else learners[:, 0]

    @property
    def learners_shape(self) -> tuple[int, int] | None:
        """Number K of learners and number d of their dimensions, or `None` before the first call of the model."""
        return self._learners_shape

    @property
    def learner_count(self) -> int | None:
        """Number K of learners, or `None` before the first call of the model."""
        return self._learners_shape and self._learners_shape[0]

    def loss_values(self, batch: Mapping[str, Tensor], learners: Tensor, training: bool = False) -> Tensor:
        """Computes the loss of each anchor, summed over learners.

        Args:
            batch: Dictionary with the targets of the batch, such as `{"label": [B]}`.
            learners: `[B, K, d]` embeddings of the learners.
            training: Boolean. Whether the model is being trained. Defaults to `False`.

        Returns:
            Tensor of shape `[B]`.
        """
        labels, keys = batch["label"], batch.get("keys")
        each = [(k, learners[:, k]) for k in range(learners.shape[1])]
        if training and self.past_batches:
            return sum(self.past_batches.values(self.loss, k, labels, embeddings, keys) for k, embeddings in each)
        references = self._references(batch, learners)
        inputs = [self.loss_layers.inputs_of(k, labels, rows, references[k]) for k, rows in each]
        return sum(anchor_values(self.loss, labels, taken) for taken in inputs)

    def _references(self, batch, learners):
        """Returns, for each learner, the reference vectors of a batch by name, or None if the loss needs none."""
        count, dim = learners.shape[1:]
        names = hooks_of(self.loss).references
        if not names:
            return [None] * count
        for name in names:
            if name not in batch:
                raise ValueError(
                    f"{type(self.loss).__name__} compares embeddings with reference vectors. Expected targets "
                    f"{{'label': ..., {name!r}: [batch, dimensions]}}. Received: {', '.join(batch)}."
                )
        found = [{name: batch[name] for name in names} for _ in range(count)]
        for k, of_learner in enumerate(found):
            # The embedding of the initial model consists of the embeddings of its learners.
            if INITIAL in of_learner and of_learner[INITIAL].shape[1] == count * dim:
                of_learner[INITIAL] = of_learner[INITIAL][:, k * dim : (k + 1) * dim]
            if ANCHOR in batch:
                of_learner[ANCHOR] = batch[ANCHOR][:, k]
        return found

    def training_metrics(self) -> list[keras.metrics.Metric]:
        return self._statistics.metrics

    def seen_by_loss(self, batch: Mapping[str, Tensor], learners: Tensor) -> Sequence[tuple[Tensor, Tensor, Any]]:
        """Returns, for each entry of `loss_dims`, labels `[n]`, embeddings `[n, d]`, and whether the loss uses them."""
        return [(batch["label"], learners[:, k], True) for k in range(learners.shape[1])]

    def observe(self, batch, learners) -> None:
        """Adds the statistics of the loss in a training batch to the statistics of the epoch."""
        seen, references = self.seen_by_loss(batch, ops.stop_gradient(learners)), self._references(batch, learners)
        statistics = [
            self._statistics_of(place, labels, embeddings, references[place] if references[0] else None)
            for place, (labels, embeddings, _) in enumerate(seen)
        ]
        self._statistics.update(statistics, [counts for _, _, counts in seen])

    def loss_statistics(self) -> dict[str, float]:
        """Returns the statistics of the loss in an epoch, averaged over its batches; see `EmbeddingLoss.statistics`.

        Returns:
            Dictionary from name to mean. If there are several learners, the names end with `_of_learner_0` and so on.
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
        """Configures the model for training, like `keras.Model.compile`.

        Args:
            optimizer: Optimizer or its name. With `tfdml.optimizers`, you can set learning rates per layer group.
                Defaults to `"adam"`.
            loss: One of `tfdml.losses`, its spec, such as `"triplet(margin=0.1)"`, or a `keras.losses.Loss` with a
                method `call(labels [B], embeddings [B, d])` that returns `[B]`. A model without a loss cannot be
                trained. Defaults to `None`.
            metrics, loss_weights, weighted_metrics: Not supported. To measure retrieval during training, pass
                `tfdml.callbacks.RetrievalEvaluation` to `fit`.
            pieces: Integer. Number of chunks in which each batch is embedded, one after the other (gradient caching).
                More chunks need less memory but more time. Defaults to `1`.
            memory: One of `tfdml.memories` or its spec, such as `"xbm(size=8192)"`, to also compare batches with past
                batches. If `None`, only images of the same batch are compared. Defaults to `None`.
            **kwargs: `run_eagerly`, `steps_per_execution`, `jit_compile` and `auto_scale_loss` of
                `keras.Model.compile`.

        Raises:
            ValueError: If an argument is not supported, or if the loss cannot be used with the memory or the strategy.
        """
        loss = registry.create("loss", loss) if isinstance(loss, str) else loss
        unsupported = {"metrics": metrics, "loss_weights": loss_weights, "weighted_metrics": weighted_metrics}
        check_compile_arguments(strategy_of(self), optimizer, loss, unsupported, pieces, kwargs)
        warn_of_missing_loss(self, loss)
        self.pieces = pieces
        self.past_batches = past_batches_of(memory, self, loss)
        factor = hooks_of(loss).weights_penalty
        self.initial_weights = InitialWeights(factor) if factor else None
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        check_shards(self, loss)
        check_references(self, loss)
        if self._learners_shape is not None:
            self._make_loss_layers(self._learners_shape)
        self.prepare_optimizer(without_loss_scaling(self.optimizer))

    def make_train_function(self, force=False):
        if self.initial_weights:
            self.initial_weights.begin()
        super().make_train_function(force)

    def prepare_optimizer(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Prepares a new optimizer for the model. `compile` calls it."""
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
        """Returns the embedding size for each layer of the loss. By default, there is one layer per learner."""
        return [dim] * learners

    def _make_loss_layers(self, learners_shape):
        if self.compiled:
            with self.creating():
                dims = self.loss_dims(*learners_shape)
                self.loss_layers.make(self.loss, dims)
                if self.initial_weights:
                    self.initial_weights.make(self)
                if self.past_batches:
                    self.past_batches.make(dims, loss_dtype(self.compute_dtype), self)
                names = self._statistics_of(0, ops.convert_to_tensor(LABELS), ops.zeros((len(LABELS), dims[0])))
                self._statistics.make(names, len(dims))

    def _statistics_of(self, place, labels, embeddings, references=None):
        """Returns the statistics of the loss for the embeddings `[B, d]` of an entry of `loss_dims`."""
        inputs_of = self.loss_layers.inputs_of
        return statistics_of(self.loss, labels, embeddings, lambda *of: inputs_of(place, *of, references))
