"""Optimizers and schedules with a mistake in each marked line."""

from tfdml import optimizers
from tfdml.optimizers import schedules

optimizers.SGD(0.01, momentun=0.9)  # marked
optimizers.SGD(0.01, lr_multipliers={"embedding": "10"})  # marked
optimizers.Adam("1e-4")  # marked
optimizers.Adam(1e-4, momentum=0.9)  # marked
optimizers.AdamW(1e-4, frozen_steps=500)  # marked
optimizers.AdamW(1e-4, layer_decay="0.75")  # marked
schedules.constant("0.1")  # marked
schedules.step(0.1, steps_per_epoch=10, at="10")  # marked
schedules.exponential(0.1, 10, evry=2.0)  # marked
schedules.cosine(0.1, steps_per_epoch=10)  # marked
