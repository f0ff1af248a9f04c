"""The variables of a model come back from a snapshot, into a model like it alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.run.directory.checkpoints import CheckpointError, restore, snapshot


def model_of(units):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units), keras.layers.BatchNormalization()])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def kept(model):
    return model.variables + model.optimizer.variables


def test_snapshot_comes_back_into_another_model():
    strategy = tf.distribute.get_strategy()
    trained, fresh = model_of(4), model_of(4)
    trained.fit(np.eye(3, dtype="float32"), np.ones((3, 4), "float32"), verbose=0)
    arrays = snapshot(kept(trained), strategy)
    assert len({name for name, _ in arrays}) == len(arrays)
    names = [variable.path.partition("/")[2] or variable.path for variable in kept(trained)]
    renamed = [(f"{name.partition('|')[0]}|{variable.path}", array) for (name, array), variable in
               zip(arrays, kept(fresh), strict=True)]  # fmt: skip
    before = [variable.numpy() for variable in kept(fresh)]
    restore(kept(fresh), renamed, strategy)
    after = [variable.numpy() for variable in kept(fresh)]
    for name, found, wanted in zip(names, after, kept(trained), strict=True):
        assert found.tobytes() == wanted.numpy().tobytes(), name
    assert any(found.tobytes() != old.tobytes() for found, old in zip(after, before, strict=True))


def test_a_snapshot_of_another_model_is_refused():
    strategy = tf.distribute.get_strategy()
    model = model_of(4)
    arrays = snapshot(kept(model), strategy)
    with pytest.raises(CheckpointError, match=f"holds {len(arrays) - 1} variables, the model has {len(arrays)}"):
        restore(kept(model), arrays[1:], strategy)
    name, array = arrays[0]
    with pytest.raises(CheckpointError, match=r"shape \(3, 5\) does not fit .*kernel of shape \(3, 4\)"):
        restore(kept(model), [(name, np.zeros((3, 5), "float32")), *arrays[1:]], strategy)
    with pytest.raises(CheckpointError, match="other/kernel.* does not fit"):
        restore(kept(model), [("00000|other/kernel", array), *arrays[1:]], strategy)
