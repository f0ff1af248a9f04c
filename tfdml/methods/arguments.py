"""Types and ranges of arguments that all methods take."""

import keras

from tfdml.heads.head import Head
from tfdml.layers.frozen_batch_norm import WHICH
from tfdml.registry.arguments import instance, integer, number, one_of, optional, text

METHOD = {
    "backbone": instance(keras.Layer, "a Keras model"),
    "embedding_size": integer(1),
    "head": instance(Head, "a head of tfdml.heads"),
    "freeze_batch_norm": one_of(*WHICH),
}
ATTENTION = {"attention_depth": optional(integer(1)), "initial_mask": number(above=0, below=1)}
ENSEMBLE = {
    **METHOD,
    "learners": integer(1),
    "branch": optional(text()),
    "divergence_weight": number(at_least=0),
    "divergence_margin": number(at_least=0),
}


def check_endpoints(backbone, method):
    """Raises a ValueError if a method that cuts its backbone at endpoints is given one that declares none."""
    # Any model of Keras can be a backbone, and one of the user's own may have endpoints.
    if not hasattr(backbone, "split_at"):
        raise ValueError(
            f"{type(method).__name__} cuts its backbone at endpoints, which {type(backbone).__name__} "
            f"{backbone.name!r} does not declare. Use one of tfdml.backbones, such as KerasApplication('ResNet50')."
        )
