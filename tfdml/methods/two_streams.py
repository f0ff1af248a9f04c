"""A model with a network for queries and a network for the gallery, which share one space."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import keras
from keras import ops

from tfdml import registry
from tfdml.functional.pairs import UNKNOWN
from tfdml.layers.loss_layer import layer_of
from tfdml.losses import WeightedSum
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.heads import JoinedArguments
from tfdml.methods.pairs import PairedModel
from tfdml.methods.step.parts import anchor_values
from tfdml.registry.arguments import Tensor
from tfdml.registry.loss_hooks import hooks_of

# Keys of a training batch, and of the networks in a saved model.
STREAMS = ("query", "gallery")


@keras.saving.register_keras_serializable(package="tfdml")
class TwoStreams(PairedModel):
    """Embedding model for queries that look different from the gallery, with a network for each.

    Use it if queries and gallery come from different sources, such as sketches and photos, or photos from phones and
    from a shop. Training batches are `{"query": images, "gallery": images}`, and both images of a row have the label of
    the row. A loss on pairs only compares queries with gallery images, in both directions. A proxy-based loss compares
    the images of both streams with the same proxies.

    Calling the model on images returns the embeddings of queries. Afterwards, use both networks on their own: embed the
    gallery with `gallery`, and the queries with `query`.

    Args:
        query: Model from images to one embedding `[B, d]`, such as `tfdml.Single`.
        gallery: Model from images to embeddings of the same size. Pass the same model twice to share its weights.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the embeddings of the two networks have different sizes, or if `compile`
            receives a memory.

    Example:

    ```python
    images = {name: np.random.uniform(-2, 2, (8, 32, 32, 3)) for name in ("query", "gallery")}
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    sketches = tfdml.Single(tfdml.backbones.Small(width=4), embedding_size=16)
    photos = tfdml.Single(tfdml.backbones.Small(width=8), embedding_size=16)
    model = tfdml.TwoStreams(query=sketches, gallery=photos)
    model.compile("adam", "multi_similarity")
    history = model.fit(images, labels, verbose=0)
    gallery = photos.predict(images["gallery"], verbose=0)
    similarities = sketches.predict(images["query"], verbose=0) @ gallery.T
    similarities.shape  # (8, 8)
    ```
    """

    first = "query"
    no_references = "its batches have two images per row"

    def __init__(self, query: keras.Model, gallery: keras.Model, **kwargs: Unpack[JoinedArguments]):
        of_query = {"preprocessing": query.preprocessing} if isinstance(query, EmbeddingModel) else {}
        super().__init__(**{**of_query, **kwargs})
        self.query, self.gallery = query, gallery

    def backbones(self) -> list[keras.layers.Layer]:
        models = [getattr(self, name) for name in STREAMS]
        found = [model.backbones() if isinstance(model, EmbeddingModel) else [model] for model in models]
        return list({id(backbone): backbone for each in found for backbone in each}.values())

    def embedding_layers(self) -> list[keras.layers.Layer]:
        models = [getattr(self, name) for name in STREAMS]
        found = [model.embedding_layers() for model in models if isinstance(model, EmbeddingModel)]
        return list({id(layer): layer for each in found for layer in each}.values())

    def compile(self, optimizer="adam", loss=None, *args, **kwargs):
        """Configures the model for training; see `EmbeddingModel.compile`.

        Raises:
            ValueError: If `memory` is set, or if the loss is a sum of losses on pairs and losses with proxies.
        """
        loss = registry.create("loss", loss) if isinstance(loss, str) else loss
        if kwargs.get("memory") is not None:
            raise ValueError(
                "TwoStreams cannot compare batches with past batches, because a memory does not know which of its "
                f"images are queries. Expected memory=None. Received: memory={kwargs['memory']!r}."
            )
        terms = [term for _, term in loss.terms] if isinstance(loss, WeightedSum) else []
        # Others, such as a penalty on weights, compare no images.
        comparing = [hooks_of(term).needs_pairs for term in terms if hooks_of(term).needs_pairs or layer_of(term)]
        if len(set(comparing)) > 1:
            raise ValueError(
                "TwoStreams cannot add a loss on pairs and a loss with proxies, because the former compares queries "
                "with gallery images only. Expected a sum of losses of one kind. Received: "
                f"{', '.join(type(term).__name__ for term in terms)}."
            )
        super().compile(optimizer, loss, *args, **kwargs)

    def call(self, images, training=False, merged=True):
        if self._learners_shape is None:
            # The first call makes the layers of both networks.
            self.gallery(images["gallery"] if isinstance(images, Mapping) else images)
        return super().call(images, training=training, merged=merged)

    def learner_embeddings(self, images, training=False) -> Tensor:
        if not isinstance(images, Mapping):
            return self.query(images, training=training)[:, None]
        query, gallery = (getattr(self, name)(images[name], training=training) for name in STREAMS)
        if query.shape[-1] != gallery.shape[-1]:
            raise ValueError(
                "The embeddings of both networks must have the same size, because TwoStreams compares them. Received: "
                f"{query.shape[-1]} dimensions of queries and {gallery.shape[-1]} of gallery images."
            )
        return ops.stack([query, gallery], axis=1)

    def loss_dims(self, learners, dim) -> list[int]:
        return [dim]

    def loss_values(self, batch, learners, training=False) -> Tensor:
        labels, rows = self._rows(batch["label"], learners)
        values = anchor_values(self.loss, labels, self.loss_layers.inputs_of(0, labels, rows))
        return ops.mean(ops.reshape(values, (2, -1)), axis=0)

    def seen_by_loss(self, batch, learners) -> Sequence[tuple[Tensor, Tensor, Any]]:
        return [(*self._rows(batch["label"], learners), True)]

    def _rows(self, labels, learners):
        """Returns the embeddings `[2 * B, d]` of queries and gallery, and their labels or the relevance of pairs."""
        rows = ops.concatenate([learners[:, 0], learners[:, 1]], axis=0)
        if not hooks_of(self.loss).needs_pairs:
            return ops.concatenate([labels, labels], axis=0), rows
        same = ops.cast(labels[:, None] == labels[None, :], "float32")
        unknown = ops.full_like(same, UNKNOWN)
        queries = ops.concatenate([unknown, same], axis=1)
        return ops.concatenate([queries, ops.concatenate([same, unknown], axis=1)], axis=0), rows

    def get_config(self):
        streams = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in STREAMS}
        return {**super().get_config(), **streams}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        streams = {name: keras.saving.deserialize_keras_object(config[name], custom_objects) for name in STREAMS}
        return super().from_config({**config, **streams}, custom_objects)
