"""Models for ONNX Runtime and LiteRT agree with the SavedModel that they are made of, and run with these alone."""

import math
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.serving_fixtures import SIZE, embedded_alone, exported, loaded
from tfdml.serving.exported_model import model_hash
from tfdml.serving.exports import import_converter, write_lite, write_onnx

WITHOUT = "the extra {} is not installed; setup.py lists it, and it is a part of the extra test"


def test_embeddings_of_any_number_of_images_agree(tmp_path):
    pytest.importorskip("tf2onnx", reason=WITHOUT.format("onnx"))
    pytest.importorskip("onnxruntime", reason=WITHOUT.format("onnx"))
    folder = shutil.copytree(exported(), tmp_path / "exported")
    write_onnx(folder)
    assert model_hash(folder) == model_hash(exported())
    images = np.random.default_rng(0).integers(0, 256, (3, SIZE, SIZE, 3)).astype(np.float32)
    signatures = loaded(model_hash(folder)).signatures
    expected = signatures["embed_images"](images=tf.constant(images))["embedding"]
    for count in (3, 0):
        found = embedded_alone(folder / "model.onnx", images[:count])
        assert found.shape == (count, 16)
        np.testing.assert_allclose(found, expected[:count], atol=1e-5)


def test_the_complement_of_the_error_function_and_tensors_that_are_no_variables_are_converted(tmp_path):
    """As the networks of keras-hub have them: an exact GELU, and the numbers of positions."""
    pytest.importorskip("tf2onnx", reason=WITHOUT.format("onnx"))
    pytest.importorskip("onnxruntime", reason=WITHOUT.format("onnx"))
    module = tf.Module()
    module.weight, module.numbers = tf.Variable([2.0, -1.0, 0.5]), tf.constant([2, 0, 1])

    def embed(images):
        return {"embedding": tf.nn.gelu(tf.gather(images * module.weight, module.numbers, axis=1), approximate=False)}

    module.embed = tf.function(embed, [tf.TensorSpec([None, 3], name="images")])
    tf.saved_model.save(module, str(tmp_path), signatures={"embed_images": module.embed})
    write_onnx(tmp_path)
    images = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    values = (images * module.weight.numpy())[:, [2, 0, 1]]
    expected = [[each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in row] for row in values.tolist()]
    np.testing.assert_allclose(embedded_alone(tmp_path / "model.onnx", images), expected, atol=1e-6)


def test_a_model_with_an_operation_that_litert_lacks_is_told(tmp_path):
    module = tf.Module()
    module.embed = tf.function(
        lambda images: {"embedding": tf.roll(images, 1, 1)}, [tf.TensorSpec([None, 3], name="images")]
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"embed_images": module.embed})
    with pytest.raises(ValueError, match="cannot be exported to LiteRT, which does not have Roll. Export it without"):
        write_lite(tmp_path / "model", "float32")
    assert not (tmp_path / "model" / "model.tflite").exists()


def test_a_model_with_an_operation_that_onnx_lacks_is_told(tmp_path):
    pytest.importorskip("tf2onnx", reason=WITHOUT.format("onnx"))
    module = tf.Module()
    module.embed = tf.function(
        lambda images: {"embedding": tf.linalg.qr(images)[0]}, [tf.TensorSpec([None, 3, 3], name="images")]
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"embed_images": module.embed})
    with pytest.raises(ValueError, match="cannot be exported to ONNX.*No Op registered for Qr"):
        write_onnx(tmp_path / "model")
    assert not (tmp_path / "model" / "model.onnx").exists()


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"ONNX export needs onnx: pip install 'tfdml\[onnx\]'"):
        import_converter()


@pytest.mark.nightly
@pytest.mark.parametrize("precision, tolerance", [("float32", 1e-5), ("float16", 1e-3), ("int8", 0.02)])
def test_embeddings_agree_as_far_as_the_precision_allows(precision, tolerance, tmp_path):
    pytest.importorskip("ai_edge_litert", reason=WITHOUT.format("lite"))
    folder = shutil.copytree(exported(), tmp_path / "exported")
    images = np.random.default_rng(0).integers(0, 256, (4, SIZE, SIZE, 3)).astype(np.float32)
    expected = loaded(model_hash(folder)).signatures["embed_images"](images=tf.constant(images))["embedding"].numpy()
    write_lite(folder, precision)
    for count in (4, 1):
        found = embedded_alone(folder / "model.tflite", images[:count])
        np.testing.assert_allclose(found, expected[:count], atol=tolerance)
        # A lower precision is there, not only asked for.
        assert precision == "float32" or np.abs(found - expected[:count]).max() > 1e-5
