import keras
import numpy as np
import pytest

from tfdml.layers import Predictor, Projector


@pytest.mark.parametrize(
    "layer, shape", [(Projector((6, 4), name="own"), (8, 1, 4)), (Predictor(name="own"), (8, 2, 5))]
)
def test_a_saved_layer_computes_the_same(layer, shape, tmp_path):
    inputs = keras.Input((5,))
    model = keras.Model(inputs, layer(inputs))
    rows = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
    expected = model(rows)
    assert expected.shape == shape and layer.compute_output_shape((8, 5)) == shape
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].get_config() == layer.get_config()
    np.testing.assert_array_equal(loaded(rows), expected)


def test_projections_are_linear_layers_with_batch_norm_and_relu_between():
    layer = Projector((6, 4))
    rows = np.random.default_rng(0).normal(size=(8, 5)) * 10
    found = layer(rows)
    first, second = (kernel.numpy() for kernel in layer.kernels)
    hidden = rows @ first
    hidden = np.maximum((hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-3), 0)
    np.testing.assert_allclose(found[:, 0], hidden @ second, rtol=1e-5, atol=1e-6)
    assert found.dtype == "float64"


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="sizes to be a tuple of one or more integers"):
        Projector(())
    with pytest.raises(ValueError, match="hidden to be None or an integer of 1 or more"):
        Predictor(0)
