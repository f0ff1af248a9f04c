"""Embeddings of several depths of a network, as Ranked List Loss has them."""

from tfdml.arguments import integer, optional, several, text
from tfdml.heads.linear import Linear
from tfdml.layers.multilevel_embedding import MultilevelEmbedding
from tfdml.methods.arguments import METHOD
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.registry import register


@register(
    "method",
    "multilevel",
    endpoints=optional(several(text(), at_least=2)),
    reduced=integer(1),
    hidden=integer(1),
    **METHOD,
)
class Multilevel(EmbeddingModel):
    """One learner at each of several endpoints, each with the loss of its own; side by side for retrieval.

    The embeddings L, M and H of Ranked List Loss (Sec. 4.1.3), of 512 dimensions each. Images need one size.

    Args:
        backbone: one of `tfdml.backbones`.
        embedding_size: dimensions of all levels together.
        endpoints: names of the backbone's endpoints, from shallow to deep; None: the default of the backbone,
            for `bn_inception` the paper's `inception_3c`, `inception_4e` and `inception_5b`.
        reduced: channels that all levels but the last are reduced to.
        hidden: units of their hidden layers.
        head: one of `tfdml.heads`, see `Single`, of each level.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone,
        embedding_size=1536,
        endpoints=None,
        reduced=128,
        hidden=1024,
        head=Linear(),
        freeze_batch_norm="none",
        **kwargs,
    ):
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        endpoints = backbone.method_default("levels") if endpoints is None else endpoints
        self.embedding_size = embedding_size
        self.endpoints = tuple(endpoints)
        self.levels = backbone.taps(endpoints)
        self._branch_options = {"reduced": reduced, "hidden": hidden}
        features = head.make_layer(name="features")
        self.head = MultilevelEmbedding(embedding_size, features=features, name="embedding", **self._branch_options)

    def embedding_layers(self):
        return [self.head]

    def learner_embeddings(self, images, training=False):
        return self.head(self.levels(images, training=training), training=training)

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "endpoints": self.endpoints, **self._branch_options}
        return {**super().get_config(), **own}
