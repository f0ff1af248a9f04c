"""Optimizers and schedules as users make them."""

import keras

from tfdml import optimizers
from tfdml.optimizers import schedules

multipliers = {"embedding": 10, "loss": 100.0}
sgd = optimizers.SGD(0.01, momentum=0.9, weight_decay=2e-5, l2=True, lr_multipliers=multipliers)
adam = optimizers.Adam(1e-4, frozen_steps={"backbone": 500}, clipnorm=10.0, layer_decay=0.75)
decayed = optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, decay_steps=20), weight_decay=1e-4)
rated = optimizers.Adam(lambda: 1e-4, decay_biases_and_norms=False, name="adam")

constant = schedules.constant(0.1)
steps = schedules.step(0.1, steps_per_epoch=10, at=(10, 20.5), factor=0.5)
exponential = optimizers.SGD(schedules.exponential(0.1, 10, every=2.0, staircase=True))
cosine = schedules.cosine(learning_rate=0.1, steps_per_epoch=10, epochs=20, warmup_epochs=1.0)
