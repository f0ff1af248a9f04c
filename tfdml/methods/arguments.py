"""Types and ranges of arguments that all methods take."""

import keras

from tfdml.arguments import instance, integer, number, one_of, optional, text
from tfdml.layers.frozen_batch_norm import WHICH
from tfdml.layers.pooled_features import FEATURES

METHOD = {
    "backbone": instance(keras.Layer, "a Keras model"),
    "embedding_size": integer(1),
    "freeze_batch_norm": one_of(*WHICH),
    **FEATURES,
}
ENSEMBLE = {
    **METHOD,
    "learners": integer(1),
    "branch": optional(text()),
    "divergence_weight": number(at_least=0),
    "divergence_margin": number(at_least=0),
}
