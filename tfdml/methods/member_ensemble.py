"""Networks that were trained apart, as one model."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.norms import layers_in
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.registry.arguments import ModelArguments


@keras.saving.register_keras_serializable(package="tfdml")
class MemberEnsemble(EmbeddingModel):
    """The members of an ensemble side by side: `s(x, y) = sum_e alpha_e s(x_e, y_e)`, equation (1) of EDMS.

    `x_e` is the embedding of member e at unit length, as a whole where the member has several learners itself. The
    embedding for retrieval is `[sqrt(alpha_1) x_1, sqrt(alpha_2) x_2, ...]`, with weights that are divided by their
    sum, so that it has unit length. A learner of this model is a member; the embeddings of members with fewer
    dimensions than the largest end with zeros, which change no similarity.

    Example: `MemberEnsemble([tfdml.load(run).model for run in ("runs/a", "runs/b")])`.

    Args:
        members: list of models of methods that take the same images.
        member_weights: `alpha`, a positive number for each member; None: 1 for all.
        preprocessing: `tfdml.Preprocessing` of the images; None: that of the first member.
    """

    def __init__(
        self,
        members: Sequence[EmbeddingModel],
        member_weights: Sequence[float] | None = None,
        preprocessing: Preprocessing | VectorPreprocessing | None = None,
        **kwargs: Unpack[ModelArguments],
    ):
        for member in members:
            if not isinstance(member, EmbeddingModel):
                raise ValueError(f"Expected members of tfdml.methods, received a {type(member).__name__}.")
        # What members compute is kept as it is: a policy of half precision would round the images for all of them.
        super().__init__(preprocessing=preprocessing or members[0].preprocessing, **{"dtype": "float32", **kwargs})
        self.members = list(members)
        self.member_weights = [float(weight) for weight in member_weights or [1.0] * len(members)]
        if len(self.member_weights) != len(members) or min(self.member_weights) <= 0:
            raise ValueError(
                f"Expected a positive weight for each of {len(members)} members, received {self.member_weights}."
            )
        # It declares how images are prepared, for all members. They freeze and save their own.
        self.backbone = members[0].backbone
        self._scales = np.sqrt(np.divide(self.member_weights, sum(self.member_weights))).astype(np.float32)

    def backbones(self) -> list[keras.layers.Layer]:
        return []

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        found = [unit_length(at_least_float32(member(images, training=training))) for member in self.members]
        size = max(each.shape[-1] for each in found)
        return ops.stack([ops.pad(each, ((0, 0), (0, size - each.shape[-1]))) for each in found], axis=1)

    def for_retrieval(self, learners) -> tf.Tensor:
        return ops.reshape(learners * self._scales[:, None], (-1, learners.shape[1] * learners.shape[2]))

    def get_config(self):
        # Not that of the base, which would save the first member's backbone twice.
        config = super(EmbeddingModel, self).get_config()
        config["members"] = [keras.saving.serialize_keras_object(member) for member in self.members]
        preprocessing = self.preprocessing and self.preprocessing.get_config()
        return {**config, "member_weights": self.member_weights, "preprocessing": preprocessing}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        members = [
            keras.saving.deserialize_keras_object(member, custom_objects=custom_objects) for member in config["members"]
        ]
        with layers_in(config.get("dtype")):
            return cls(**{**config, "members": members})
