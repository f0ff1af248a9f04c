"""Learning rates that fall from head to stem: those of Keras' optimizers with such a rate for each variable."""

import keras
import numpy as np
import pytest

import tfdml
from tests.commands import assert_one_error
from tests.run_helpers import saved_model, train
from tfdml.optimizers import SGD, Adam


def model_of(optimizer):
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=8)
    model(np.zeros((1, 12, 12, 3), np.float32))
    model.compile(optimizer, loss="triplet(margin=1.0, mining='all')")
    return model


@pytest.mark.slow
def test_a_step_is_that_of_a_rate_for_each_block():
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(16, 12, 12, 3)).astype(np.float32), np.repeat(np.arange(4), 4)
    decayed = model_of(SGD(0.1, layer_decay=0.5, lr_multipliers={"embedding": 10, "stage1*": 2}))
    plain = model_of(keras.optimizers.SGD(0.1))
    before = [variable.numpy() for variable in plain.trainable_variables]
    for model in (decayed, plain):
        model.train_on_batch(*batch)
    first, second = (set(each.path for each in block.variables) for block in decayed.blocks())
    for mine, its, start in zip(decayed.trainable_variables, plain.trainable_variables, before, strict=True):
        factor = 0.25 * 2 if mine.path in first else 0.5 if mine.path in second else 10
        np.testing.assert_allclose(mine - start, factor * (its - start), rtol=2e-3, atol=1e-6)
    assert Adam.from_config(Adam(1e-3, layer_decay=0.75).get_config()).layer_decay == 0.75


def test_a_model_without_names_of_blocks_is_refused():
    optimizer = SGD(0.1, layer_decay=0.5)
    with pytest.raises(ValueError, match="layer_decay needs the blocks of a network, but"):
        optimizer.build([keras.Variable(1.0)])
    with pytest.raises(ValueError, match="layer_decay to be None or a number above 0 and at most 1"):
        SGD(0.1, layer_decay=1.5)


MORE = ["--layer_decay=0.5", "--optimizer=adam(learning_rate=0.003)"]


@pytest.mark.nightly
def test_a_run_prints_its_blocks(tmp_path):
    done = train(tmp_path / "run", *MORE, "--epochs=1", "--steps_per_epoch=2")
    told = "--layer_decay=0.5: learning rate multipliers of 2 blocks: stage2_"
    assert done.returncode == 0 and told in done.stdout and " 0.5, stage1_" in done.stdout, done.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_goes_on_exactly(tmp_path):
    for name, lengths in (("whole", [2]), ("stopped", [1, 2])):
        for epochs in lengths:
            assert train(tmp_path / name, *MORE, f"--epochs={epochs}").returncode == 0
    assert saved_model(tmp_path / "stopped" / "final.keras") == saved_model(tmp_path / "whole" / "final.keras")


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--layer_decay=0"], "layer_decay to be None or a number above 0"),
        (["--layer_decay=0.5", "--method=multi_head(learners=2)"], "Layer decay needs one backbone"),
        (["--layer_decay=0.5", "--backbone=small(width=8, stages=1)"], "with at least two blocks"),
    ],
)
def test_bad_flags_are_one_line(tmp_path, more, words):
    assert_one_error(train(tmp_path / "run", *more), words)
