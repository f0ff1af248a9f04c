"""What holds for every method in plain Keras code: `compile` with XLA, `fit`, and models from files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.night import others_at_night
from tfdml.backbones import Backbone, Small
from tfdml.registry import create, names

OPTIONS = {
    "attention_ensemble": {"learners": 2},
    "divide_and_conquer": {"learners": 2},
    "features": {},
    "multi_head": {"learners": 2},
    "multi_tail": {"learners": 2},
    "multilevel": {"reduced": 2, "hidden": 2},
    "single": {},
}
# Among them one with a single level, which is not the output of the backbone.
METHODS = [*names("method"), "multilevel(endpoints=('stage1',), reduced=2, hidden=2)"]
# One learner, several of one layer, and several networks.
IMAGES = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
LABELS = np.array([0, 0, 1, 1])


def make(method, backbone=None, **more):
    backbone = backbone or Small(width=2, stages=2)
    return create("method", method, backbone=backbone, embedding_size=4, **OPTIONS.get(method, {}), **more)


def two_layers():
    """A backbone that XLA compiles in no time."""
    inputs = keras.Input((8, 8, 3))
    first = keras.layers.Conv2D(2, 1, name="first")(inputs)
    second = keras.layers.Conv2D(2, 1, name="second")(first)
    about = {"mean": (127.5,) * 3, "std": (63.75,) * 3, "image_size": 8}
    return Backbone(inputs, {"stage1": first, "stage2": second}, **about)


def targets_of(method):
    return {"label": LABELS, "learner": np.zeros(4, int)} if method == "divide_and_conquer" else LABELS


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    "method, optimizer",
    [
        *((method, keras.optimizers.Adam) for method in METHODS),
        # Which keeps nothing for the slices that wait.
        ("divide_and_conquer", keras.optimizers.SGD),
        ("single", keras.optimizers.SGD),
    ],
)
def test_the_step_is_compiled_by_xla(method, optimizer):
    model = make(method, two_layers())
    model.compile(optimizer(0.1), loss=tfdml.losses.ProxyNCA(classes=2), jit_compile=True)
    loss = model.fit(IMAGES, targets_of(method), batch_size=4, verbose=0).history["loss"][0]
    assert model.jit_compile is True and np.isfinite(loss)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert model.optimizer.built and int(model.optimizer.iterations) == 1


@pytest.mark.nightly
def test_where_a_gpu_is_listed_keras_chooses_xla(monkeypatch):
    listed = tf.config.list_physical_devices()
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [*listed, gpu])
    model = make("single", two_layers())
    model.compile("adam", loss=tfdml.losses.Triplet(mining="all"))
    assert model.jit_compile is True
    batches = tf.data.Dataset.from_tensors((IMAGES, LABELS)).repeat(2)
    assert np.isfinite(model.fit(batches, verbose=0).history["loss"][0])


@pytest.mark.slow
def test_no_batch_is_lost_for_building_the_model():
    """A generator gives each batch once."""
    seen = []

    def batches():
        for number in range(3):
            seen.append(number)
            yield IMAGES, LABELS

    model = make("single")
    model.compile("adam", loss="triplet(mining='all')")
    model.fit(batches(), steps_per_epoch=3, verbose=0)
    assert int(model.optimizer.iterations) == 3 and seen == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("method", others_at_night(METHODS, ("divide_and_conquer", "attention_ensemble")))
def test_a_loaded_model_is_built(method, tmp_path, capsys):
    model = make(method)
    expected = np.asarray(model(IMAGES))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.summary()
    assert "?" not in capsys.readouterr().out and loaded.count_params() == model.count_params()
    loaded.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(IMAGES), expected, atol=1e-5)
