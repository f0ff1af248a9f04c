"""Goes on with a model whose proxies are sharded, and stores what it comes to: `sharded_proxies.py DEVICES FOLDER`.

Two devices come first. They leave a checkpoint, a file of the model, and what cannot be, for one device to go on with.
"""

import functools
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml
from tfdml.run.directory.checkpoints import CheckpointFolder, restore, snapshot
from tfdml.runtime.devices import strategy_for
from tfdml.runtime.sharded_variable import ShardedVariable

CLASSES, BATCH, STEPS = 7, 16, 2
LOSS = f"norm_softmax(classes={CLASSES}, sharded=True)"


def main(devices, folder):
    # As in a run, which gives the same bits each time. Improving the graphs would take longer than anything else.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy, folder = strategy_for(devices), Path(folder)
    tf.config.experimental.enable_op_determinism()
    checkpoints = CheckpointFolder(folder / "checkpoints")
    if devices == "cpu:2":
        begin(strategy, checkpoints, folder)
        (folder / "refused.json").write_text(json.dumps(refused(strategy)))
    went_on = make_model(strategy, seed=1)
    restore(variables_of(went_on), checkpoints.read_newest(print)[1], strategy)
    train(went_on, first=STEPS)
    store(went_on, strategy, folder / f"went_on_{devices}.npz")
    keras.utils.clear_session()
    with strategy.scope():
        loaded = keras.models.load_model(folder / "model.keras")
    store(loaded, strategy, folder / f"loaded_{devices}.npz")
    proxies = loaded.loss_layers.learners[0].proxies
    print(f"{len(proxies.shards) if isinstance(proxies, ShardedVariable) else 1} devices hold the proxies.")


def begin(strategy, checkpoints, folder):
    """Two steps, what is saved of them, and two more without a stop."""
    model = make_model(strategy, seed=0)
    train(model)
    checkpoints.write(STEPS, snapshot(variables_of(model), strategy), {})
    model.save(folder / "model.keras")
    store(model, strategy, folder / "saved.npz")
    train(model, first=STEPS)
    store(model, strategy, folder / "straight.npz")
    sharded = [each.path for each in variables_of(model) if isinstance(each, ShardedVariable)]
    (folder / "sharded.json").write_text(json.dumps(sharded))


def make_model(strategy, seed, optimizer=None, method=tfdml.Single, built=True):
    # Variables of a run have the names that the first model of a process gives them.
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        model = method(keras.Sequential([keras.layers.Conv2D(4, 3)]), embedding_size=6)
        if built:
            model(np.zeros((1, 4, 4, 3), np.float32))
        # Made here, where its variables belong to the strategy.
        model.compile(optimizer() if optimizer else tfdml.optimizers.Adam(0.01), loss=LOSS)
        if built:
            model.optimizer.build(model.trainable_variables)
    return model


def train(model, first=0):
    random = np.random.default_rng(0)
    images = random.normal(size=(2 * STEPS * BATCH, 4, 4, 3)).astype("float32")
    labels = random.integers(0, CLASSES, len(images))
    rows = slice(first * BATCH, (first + STEPS) * BATCH)
    model.fit(images[rows], labels[rows], batch_size=BATCH, shuffle=False, verbose=0)


def variables_of(model):
    return model.variables + model.optimizer.variables


def store(model, strategy, file):
    np.savez(file, **dict(snapshot(variables_of(model), strategy)))


def refused(strategy):
    """The errors of what cannot be with shards, and of what can."""
    uses = {
        "nothing": lambda: train(make_model(strategy, 0, built=False)),
        "lamb": lambda: make_model(strategy, 0, keras.optimizers.Lamb),
        "turns": lambda: make_model(strategy, 0, method=functools.partial(tfdml.DivideAndConquer, learners=2)),
        "plain": lambda: train_plain_keras(strategy),
        "regularizer": lambda: build_with_regularizer(strategy),
    }
    return {name: error_of(use) for name, use in uses.items()}


def train_plain_keras(strategy):
    loss = tfdml.losses.NormSoftmax(classes=CLASSES, sharded=True)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4), loss.make_layer()])
        model.compile("sgd", loss)
    train(model)


def build_with_regularizer(strategy):
    with strategy.scope():
        tfdml.layers.ShardedProxies(CLASSES, scale=1.0, regularizer="l2").build((None, 4))


def error_of(use):
    try:
        use()
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
