"""Types and ranges of arguments that all methods take."""

import keras

from tfdml.arguments import instance, integer, number, one_of, optional, text
from tfdml.heads.head import Head
from tfdml.layers.frozen_batch_norm import WHICH

METHOD = {
    "backbone": instance(keras.Layer, "a Keras model"),
    "embedding_size": integer(1),
    "head": instance(Head, "a head of tfdml.heads"),
    "freeze_batch_norm": one_of(*WHICH),
}
ENSEMBLE = {
    **METHOD,
    "learners": integer(1),
    "branch": optional(text()),
    "divergence_weight": number(at_least=0),
    "divergence_margin": number(at_least=0),
}
