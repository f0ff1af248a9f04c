"""Embeddings of several depths of a network, as Ranked List Loss has them."""

from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
import tensorflow as tf

from tfdml.heads import Linear
from tfdml.layers.embedding import MultilevelEmbedding
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.method_arguments import BackboneModel, MethodArguments, MethodHead, endpoints_of
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, several, text


@register("method", "multilevel")
class Multilevel(EmbeddingModel):
    """One learner at each of several endpoints, each with the loss of its own; side by side for retrieval.

    The embeddings L, M and H of Ranked List Loss (Sec. 4.1.3), or some of them. A level is the same alone as beside
    others. With auxiliary levels all images must have the same size.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all levels together, which have the same number each. The paper has 512 for each
            level, so the default is for three.
        endpoints: names of the backbone's endpoints, from shallow to deep; None: the default of the backbone,
            for `bn_inception` the paper's `inception_3c`, `inception_4e` and `inception_5b`, for networks without
            endpoints of their own the last three stages.
        reduced: channels that auxiliary levels are reduced to.
        hidden: units of their hidden layers.
        auxiliary: names of the endpoints whose levels are auxiliary, see `tfdml.layers.MultilevelEmbedding`; None: all
            but the output of the backbone.
        head: one of `tfdml.heads`, see `Single`, of each level.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone: BackboneModel,
        embedding_size: Count = 1536,
        endpoints: Annotated[Sequence[str], several(text())] | None = None,
        reduced: Count = 128,
        hidden: Count = 1024,
        auxiliary: Annotated[Sequence[str], several(text(), at_least=0)] | None = None,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        known = endpoints_of(backbone, self)
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.embedding_size = embedding_size
        self.endpoints = tuple(known.method_default("levels") if endpoints is None else endpoints)
        if len(set(self.endpoints)) < len(self.endpoints):
            raise ValueError(f"Expected each endpoint once, received endpoints={self.endpoints}.")
        self.levels = known.taps(self.endpoints)
        self.auxiliary = self._auxiliary_levels(auxiliary)
        self._branch_options = {"reduced": reduced, "hidden": hidden}
        self.head = MultilevelEmbedding(
            embedding_size,
            features=head.make_layer(name="features"),
            auxiliary=tuple(name in self.auxiliary for name in self.endpoints),
            name="embedding",
            **self._branch_options,
        )

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.head]

    def learning_variables(self) -> list[keras.Variable]:
        # The part of the backbone behind the deepest level has no gradient.
        levels = {id(variable) for variable in self.levels.variables}
        behind = {id(variable) for variable in self.backbone.variables} - levels
        return [variable for variable in self.trainable_variables if id(variable) not in behind]

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        # Of one endpoint, Keras gives the tensor, not a list.
        levels = keras.tree.flatten(self.levels(images, training=training))
        return self.head(levels, training=training)

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "endpoints": self.endpoints, "auxiliary": self.auxiliary}
        return {**super().get_config(), **own, **self._branch_options}

    def _auxiliary_levels(self, names):
        """The names of the endpoints whose levels are auxiliary."""
        if names is None:
            (output,) = self.backbone.outputs
            levels = zip(self.endpoints, self.levels.outputs, strict=True)
            return tuple(name for name, features in levels if features is not output)
        for name in names:
            if name not in self.endpoints:
                raise ValueError(
                    f"Expected auxiliary to name some of the endpoints {', '.join(self.endpoints)}, received {name!r}."
                )
        return tuple(names)
