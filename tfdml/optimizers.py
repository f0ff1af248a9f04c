"""The optimizers that flags can name: Keras' own, under Keras' own arguments."""

import keras

from tfdml.registry import add

add("optimizer", "adam", keras.optimizers.Adam)
add("optimizer", "adamw", keras.optimizers.AdamW)
add("optimizer", "sgd", keras.optimizers.SGD)
