"""Takes steps of training with Keras' backend: a JSON of cases on standard input, a file of arrays as the argument.

A case is `{"method", "loss", "steps"}` and, if needed, `{"memory", "freeze_batch_norm", "learner", "optimizer"}`. The
file has, by `number of the case/steps/name`, the logs and all variables after one step and after all steps. Nothing is
drawn by Keras: weights, images and labels are drawn by NumPy.
"""

import json
import sys

import keras
import numpy as np

import tfdml
from tfdml import registry

SIDE, ROWS = 16, 14
SGD = "sgd(learning_rate=0.001)"


def main():
    cases, found = json.load(sys.stdin), {}
    for number, case in enumerate(cases):
        for steps, arrays in taken(**case).items():
            found |= {f"{number}/{steps}/{name}": array for name, array in arrays.items()}
    np.savez(sys.argv[1], **found)
    print(keras.backend.backend())


def backbone():
    inputs = keras.Input((SIDE, SIDE, 3))
    made, stages = inputs, {}
    for stage in (1, 2, 3):
        made = keras.layers.Conv2D(6, 3, strides=2, padding="same", name=f"convolution{stage}")(made)
        made = keras.layers.BatchNormalization(name=f"norm{stage}")(made)
        stages[f"stage{stage}"] = made = keras.layers.Activation("relu", name=f"stage{stage}")(made)
    return tfdml.backbones.Backbone(inputs, stages, mean=(127.5,) * 3, std=(63.75,) * 3, image_size=SIDE)


def taken(method, loss, steps, memory=None, freeze_batch_norm="none", learner=None, optimizer=SGD):
    keras.utils.set_random_seed(0)
    model = registry.create("method", method, backbone=backbone(), freeze_batch_norm=freeze_batch_norm)
    optimizer = registry.create("optimizer", optimizer)
    model.compile(optimizer, registry.create("loss", loss), memory=memory)
    model.build((None, SIDE, SIDE, 3))
    for number, variable in enumerate(model.variables):
        if keras.backend.is_float_dtype(variable.dtype):
            variable.assign(drawn(variable, np.random.default_rng(number)))
    images, labels = batch()
    targets = labels if learner is None else {"label": labels, "learner": np.full(ROWS, learner)}
    found, first = {}, 0
    for last in (1, steps):
        for _ in range(last - first):
            logs = model.fit(images, targets, batch_size=ROWS, shuffle=False, verbose=0).history
        first = last
        variables = {f"variable {n}": keras.ops.convert_to_numpy(each) for n, each in enumerate(model.variables)}
        found[last] = variables | {name: np.array(values[-1]) for name, values in logs.items()}
    return found


def batch():
    """Images of seven classes. Row i of the first half and row i of the second half are of the same class."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, SIDE, SIDE, 3)).astype(np.float32), np.tile(np.arange(ROWS // 2), 2)


def drawn(variable, rng):
    name, shape = variable.path.rpartition("/")[2], variable.shape
    if name in ("gamma", "moving_variance", "margins"):
        return rng.uniform(0.8, 1.2, shape)
    if len(shape) < 2:
        return rng.normal(size=shape) * 0.1
    return rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))


if __name__ == "__main__":
    main()
