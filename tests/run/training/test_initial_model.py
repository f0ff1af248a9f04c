"""A model that starts from another one: what it takes over, and which files it takes."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml.console.flags import parse
from tfdml.run.training import initial_model
from tfdml.run.training.initial_model import (
    InitialModel,
    check_initial_model,
    initial_model_record,
    initial_weights_record,
)

IMAGES = np.random.default_rng(0).uniform(-1, 1, size=(4, 12, 12, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def files_are_new():
    initial_model._first_fingerprint.cache_clear()


def small_model(size=8, seed=0, method=tfdml.Single, **arguments):
    keras.utils.set_random_seed(seed)
    model = method(tfdml.backbones.Small(width=8, stages=2), embedding_size=size, **arguments)
    model(IMAGES)
    return model


def saved(model, path):
    model.save(path)
    return str(path)


def test_all_weights_of_the_same_method_and_sizes_are_taken(tmp_path):
    trained = small_model(freeze_batch_norm="all")
    initial = InitialModel.of(saved(trained, tmp_path / "trained.keras"))
    model = tfdml.Single(initial.new_backbone(), embedding_size=8)
    model(IMAGES)
    assert np.abs(model(IMAGES) - trained(IMAGES)).max() > 1e-3
    assert initial.hand_over(model).endswith("trained.keras: loaded all weights of a Single with the backbone small.")
    np.testing.assert_allclose(model(IMAGES), trained(IMAGES), atol=1e-6)
    # What it may learn is its own.
    assert len(model.trainable_weights) > len(trained.trainable_weights)
    assert model.backbone.pretrained


@pytest.mark.parametrize("size, method", [(4, tfdml.Single), (16, tfdml.DivideAndConquer)])
def test_of_another_size_or_method_the_backbone_is_taken(size, method, tmp_path):
    trained = small_model()
    initial = InitialModel.of(saved(trained, tmp_path / "trained.keras"))
    model = method(initial.new_backbone(), embedding_size=size)
    model(IMAGES)
    before = model.embedding_layers()[0].get_weights()
    assert "loaded only the weights of the backbone of a Single" in initial.hand_over(model)
    np.testing.assert_array_equal(model.backbone(IMAGES), trained.backbone(IMAGES))
    for now, own in zip(model.embedding_layers()[0].get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, own)


def test_a_learner_of_an_ensemble_hands_its_network_over(tmp_path):
    trained = small_model(method=tfdml.MultiHead, learners=2)
    for weight in trained.trainable_weights:
        weight.assign_add(0.01 * np.ones(weight.shape, np.float32))
    backbone = InitialModel.of(saved(trained, tmp_path / "trained.keras")).new_backbone()
    first = trained.seconds[0](trained.firsts[0](IMAGES))
    np.testing.assert_allclose(backbone(IMAGES), first, atol=1e-6)


def test_a_backbone_alone_is_taken_in_the_precision_of_the_run(tmp_path):
    trained = tfdml.backbones.Small(width=8, stages=2)
    path = saved(trained, tmp_path / "backbone.keras")
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        backbone = InitialModel.of(path).new_backbone()
    finally:
        keras.config.set_dtype_policy("float32")
    assert backbone.layers[1].compute_dtype == "bfloat16"
    for weight, expected in zip(backbone.weights, trained.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


def plain(*layers, side=12):
    """A network of Keras from images to features."""
    return keras.Sequential([keras.Input((side, side, 3)), *layers, keras.layers.Conv2D(4, 3)])


def test_a_network_of_keras_that_scales_pixels_itself_is_taken(tmp_path):
    network = plain(keras.layers.Rescaling(1 / 127.5, offset=-1))
    backbone = InitialModel.of(saved(network, tmp_path / "plain.keras")).new_backbone()
    assert (backbone.mean, backbone.std, backbone.image_size) == ((0.0,) * 3, (1.0,) * 3, 12)
    np.testing.assert_array_equal(backbone(IMAGES), network(IMAGES))
    # A model of it comes back from its file.
    model = tfdml.Single(backbone, embedding_size=4)
    expected = model(IMAGES)
    again = InitialModel.of(saved(model, tmp_path / "again.keras"))
    np.testing.assert_array_equal(again.model(IMAGES), expected)
    np.testing.assert_array_equal(again.new_backbone()(IMAGES), network(IMAGES))


def test_a_network_of_keras_is_scaled_as_its_model_says(tmp_path):
    about = tfdml.Preprocessing(image_size=12, mean=(1.0, 2.0, 3.0), std=(50.0,) * 3, channels="bgr")
    trained = tfdml.Single(plain(), embedding_size=4, preprocessing=about)
    trained(IMAGES)
    backbone = InitialModel.of(saved(trained, tmp_path / "trained.keras")).new_backbone()
    assert tfdml.Preprocessing.of(tfdml.Single(backbone)) == about
    np.testing.assert_array_equal(backbone(IMAGES), trained.backbone(IMAGES))


class Own(keras.Model):
    def call(self, images):
        return images


@pytest.mark.parametrize(
    "network, told",
    [
        (plain, "the backbone of a Sequential cannot be used: it does not specify how pixels are scaled. Save it"),
        (lambda: plain(keras.layers.Rescaling(1.0), side=None), "it does not specify the size of its input images"),
        (lambda: keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()]), "features must have positions"),
        (Own, "it is a Own, not a functional or sequential Keras model"),
    ],
)
def test_a_network_that_cannot_be_a_backbone_is_told(network, told):
    with pytest.raises(ValueError, match=f"--initial_model=x.keras: .*{told}"):
        InitialModel(network(), "x.keras").new_backbone()


def test_files_that_are_no_model_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.keras does not exist. Expected a .keras file or a run"):
        InitialModel.of(tmp_path / "none.keras")
    with pytest.raises(FileNotFoundError, match="the run has no best model yet"):
        InitialModel.of(tmp_path)
    (tmp_path / "text.keras").write_text("no model")
    with pytest.raises(ValueError, match="text.keras is not a Keras model, or is damaged"):
        InitialModel.of(tmp_path / "text.keras")


def network_of(*flags):
    return parse("\n".join(flags))[0].network


def test_flags_that_say_a_backbone_too_are_refused(tmp_path):
    model = f"--initial_model={tmp_path}/none.keras"
    with pytest.raises(ValueError, match="includes a backbone with its weights. Remove --backbone=resnet18"):
        check_initial_model(network_of(model, "--backbone=resnet18"), {})
    with pytest.raises(ValueError, match="Remove --initial_weights=imagenet"):
        check_initial_model(network_of(model, "--initial_weights=imagenet"), {})
    with pytest.raises(FileNotFoundError, match="none.keras does not exist"):
        check_initial_model(network_of(model), {})
    check_initial_model(network_of("--backbone=resnet18"), {})


def test_a_file_that_changes_is_noticed(tmp_path):
    network = network_of(f"--initial_model={saved(small_model(), tmp_path / 'model.keras')}")
    recorded = initial_model_record(network)
    check_initial_model(network, recorded)
    check_initial_model(network, {})
    saved(small_model(seed=1), tmp_path / "model.keras")
    with pytest.raises(ValueError, match="model.keras has changed since this command started"):
        InitialModel.of(network.initial_model)
    # In another process.
    initial_model._first_fingerprint.cache_clear()
    with pytest.raises(ValueError, match="has changed since the run was started. Restore the file"):
        check_initial_model(network, recorded)


def test_a_file_of_weights_is_identified_and_names_are_not(tmp_path):
    file = tmp_path / "small.weights.h5"
    file.write_bytes(b"weights")
    digest = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"
    assert initial_weights_record(network_of(f"--initial_weights={file}")) == {
        "initial_weights": {"bytes": 7, "sha256": digest}
    }
    for named in ("imagenet", "toycars", ""):
        assert initial_weights_record(network_of(f"--initial_weights={named}")) == {}
