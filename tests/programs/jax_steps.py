"""Takes two steps on Keras' JAX backend, see `benchmarks.jax_training`: `OUTPUT FLAG...`."""

import sys

import keras
import numpy as np

from benchmarks.jax_train import check
from benchmarks.jax_training import Training, pixels_of
from pipelines.datasets import load
from tfdml import flags


def main():
    output, *given = sys.argv[1:]
    settings, _ = flags.parse("\n".join(flags.resolve(given).values()))
    check(settings)
    dataset = load(settings.dataset, data_dir=settings.data_dir)
    training = Training(settings, dataset.train)
    state, (rows, windows) = training.start(), training.plan()
    found = {"rows": rows, "windows": windows, "labels": training.labels, "pixels": training.pixels}
    found |= {f"before {place}": value for place, value in enumerate(state.trained)}
    state, found["losses"] = training.take_steps(state, rows, windows)
    found |= {f"after {place}": value for place, value in enumerate(state.trained)}
    found["tested"] = pixels_of(dataset.test, settings.image_size)
    found["embeddings"] = training.embeddings(state, found["tested"])
    np.savez(output, **found)
    print(keras.backend.backend())


if __name__ == "__main__":
    main()
