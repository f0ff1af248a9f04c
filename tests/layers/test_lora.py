"""LoRA on Keras' layers: what trains, what is saved, and what is refused."""

import keras
import numpy as np
import pytest
from keras import ops

import tfdml
from tests.commands import assert_one_error, run
from tests.run_helpers import LENGTH_FLAGS, result, saved_model, train_flags
from tfdml.backbones import load_adapter, save_adapter
from tfdml.layers.copies import copied, perturb_kernels
from tfdml.layers.lora import enable_lora
from tfdml.registry import create


def transformer():
    images = keras.layers.Input((16, 16, 3))
    tokens = keras.layers.Reshape((16, 8))(keras.layers.Conv2D(8, 4, strides=4)(images))
    attended = keras.layers.MultiHeadAttention(2, 4, name="attention")(tokens, tokens)
    tokens = keras.layers.LayerNormalization()(keras.layers.Add()([tokens, attended]))
    return keras.Model(images, keras.layers.Dense(8, name="dense")(tokens), name="transformer")


def fitted(network, rank, side=16):
    assert enable_lora(network, rank) > 0
    model = tfdml.Single(network, embedding_size=8)
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(8, side, side, 3)).astype(np.float32), np.repeat([0, 1], 4)
    model.compile("adam", loss="triplet(margin=2.0, mining='all')")
    model.fit(images, labels, batch_size=8, epochs=2, verbose=0)
    return model, images


@pytest.mark.slow
def test_only_low_rank_changes_train_and_are_saved_merged(tmp_path):
    network = transformer()
    count = len(network.variables)
    before = [variable.numpy() for variable in network.variables]
    start = network.get_layer("dense").kernel.numpy()
    model, images = fitted(network, 2)
    # Attention has four matrices.
    assert len(network.trainable_variables) == 2 * (4 + 1) and len(network.variables) == count + 10
    known = {id(each) for each in network.trainable_variables}
    for variable, value in zip((each for each in network.variables if id(each) not in known), before, strict=True):
        np.testing.assert_array_equal(variable, value)
    dense = network.get_layer("dense")
    change = dense.kernel - start
    assert dense.lora_kernel_a.shape == (8, 2) and np.abs(change).max() > 1e-4
    # Keras multiplies the product by alpha / rank, which is 1.
    np.testing.assert_allclose(change, dense.lora_kernel_a @ dense.lora_kernel_b, atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_allclose(loaded(images), model(images), atol=1e-6)
    np.testing.assert_allclose(loaded.backbone.get_layer("dense").kernel, start + change, atol=1e-6)


@pytest.mark.nightly
def test_changes_alone_are_a_small_file_for_the_same_network(tmp_path):
    network, same = transformer(), transformer()
    same.set_weights(network.get_weights())
    model, images = fitted(network, 2)
    save_adapter(network, tmp_path / "adapter.weights.h5")
    assert load_adapter(same, tmp_path / "adapter.weights.h5") == 5
    np.testing.assert_allclose(same(images), network(images), atol=1e-6)
    assert np.abs(same.get_layer("dense").lora_kernel_b).max() > 0
    # Again, onto a network that has changes of this rank.
    assert load_adapter(same, tmp_path / "adapter.weights.h5") == 5
    small = tfdml.backbones.KerasApplication("MobileNetV2", alpha=0.35, output="block_1_expand")
    with pytest.raises(ValueError, match="does not fit mobilenetv2.* Received: 5 layers of rank 2"):
        load_adapter(small, tmp_path / "adapter.weights.h5")
    with pytest.raises(ValueError, match="transformer has no LoRA"):
        save_adapter(transformer(), tmp_path / "none.weights.h5")
    (tmp_path / "bad.weights.h5").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="bad.weights.h5 cannot be read as a LoRA adapter"):
        load_adapter(same, tmp_path / "bad.weights.h5")


@pytest.mark.nightly
def test_convolutions_of_one_position_change_and_batch_norm_stays(tmp_path):
    network = tfdml.backbones.KerasApplication("MobileNetV2", alpha=0.35, output="block_3_expand_relu")
    moving = network.get_layer("bn_Conv1").moving_mean.numpy()
    model, images = fitted(network, 1, side=32)
    assert {variable.name for variable in network.trainable_variables} == {"lora_kernel_a", "lora_kernel_b"}
    np.testing.assert_array_equal(network.get_layer("bn_Conv1").moving_mean, moving)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_allclose(loaded(images), model(images), atol=1e-5)


def test_copies_for_learners_train_low_rank_changes_alone():
    """Perturbed copies start from other kernels."""
    images = keras.layers.Input((8, 8, 3))
    features = keras.layers.Conv2D(4, 3, padding="same", name="first")(images)
    features = keras.layers.Conv2D(4, 3, padding="same", name="wide")(features)
    network = keras.Model(images, keras.layers.Conv2D(4, 1, name="last")(features))
    enable_lora(network, 2)
    copies = [copied(network, name) for name in ("one", "two")]
    perturb_kernels(copies[1], seed=0)
    names = [[each.name for each in copy.trainable_variables] for copy in copies]
    assert names == [["lora_kernel_a", "lora_kernel_b"]] * 2
    first, second = (
        ops.convert_to_numpy(copy.get_layer(f"{name}_last").kernel)
        for copy, name in zip(copies, ("one", "two"), strict=True)
    )
    assert 0 < np.max(np.abs(first / second - 1)) < 1


def test_a_network_without_matrices_is_refused():
    with pytest.raises(ValueError, match="LoRA changes dense layers and 1 × 1 convolutions, but small has none"):
        enable_lora(tfdml.backbones.Small(width=8, stages=2), 4)
    with pytest.raises(ValueError, match="rank to be an integer of 1 or more"):
        enable_lora(transformer(), 0)


MOBILE = "--backbone=keras_applications(name='MobileNetV2', alpha=0.35, output='block_3_expand_relu')"


LORA = [MOBILE, "--lora=2", "--head=linear", "--image_size=32", *LENGTH_FLAGS, "--layer_decay=0.8"]


def lora_run(run_dir, *lengths):
    """A run of so many epochs, which is made longer by each further number."""
    for epochs in lengths:
        done = run("tfdml.train", *train_flags(run_dir, *LORA, f"--epochs={epochs}"))
        assert done.returncode == 0 and "--lora=2: " in done.stdout, done.stderr
    return run_dir


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_is_saved_merged(tmp_path):
    run_dir = lora_run(tmp_path / "run", 1)
    assert not any("lora" in name for name in saved_model(run_dir / "model.keras"))
    keras.utils.set_random_seed(0)
    begun = create("backbone", MOBILE.removeprefix("--backbone="))
    load_adapter(begun, run_dir / "adapter.weights.h5")
    images = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)
    np.testing.assert_allclose(begun(images), tfdml.load(run_dir).model.backbone(images), atol=1e-5)
    told = run("tfdml.evaluate", f"--run_dir={run_dir}").stdout
    assert f'"recall_at_1": {result(run_dir)["best"]["recall_at_1"]}' in told


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_goes_on_exactly(tmp_path):
    whole, stopped = lora_run(tmp_path / "whole", 2), lora_run(tmp_path / "stopped", 1, 2)
    assert saved_model(whole / "final.keras") == saved_model(stopped / "final.keras")


@pytest.mark.slow
def test_a_run_without_dense_layers_is_one_line(tmp_path):
    done = run("tfdml.train", *train_flags(tmp_path / "run", "--lora=4"))
    assert_one_error(done, "--lora=4: LoRA changes dense layers and 1 × 1 convolutions, but small has none")
