"""Signatures of an exported model: pixels, learners, files that cannot be read, requests of TensorFlow Serving."""

import base64
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from tests import rest_of_tensorflow_serving as rest
from tests.pipelines.image_files import with_scans
from tests.serving_fixtures import (
    SIZE,
    claims_pixels,
    exported,
    exported_tolerant,
    exported_towers,
    loaded,
    picture,
    two_learners,
)
from tfdml.serving import ExportedModel, exported_model
from tfdml.serving.exported_model import model_hash
from tfdml.serving.exports import Projection

GOOD = [picture(0), picture(1, 24, 60, "JPEG"), picture(2, 50, 25)]
BAD = {"text": b"no image", "nothing": b"", "half": GOOD[1][:300], "bomb": claims_pixels(GOOD[0])}


@pytest.fixture(scope="module")
def strict():
    return loaded(model_hash(exported()))


@pytest.fixture(scope="module")
def tolerant():
    return loaded(model_hash(exported_tolerant()))


def test_pixels_and_files_have_the_same_embeddings(strict):
    model, preprocessor = two_learners()
    images = np.random.default_rng(0).integers(0, 256, (3, SIZE, SIZE, 3)).astype(np.float32)
    files = [tf.io.encode_png(tf.cast(each, tf.uint8)).numpy() for each in images]
    expected = model(preprocessor.normalize(tf.constant(images)))
    of_files = strict.signatures["serving_default"](image_bytes=tf.constant(files))["embedding"]
    for count in (3, 1, 0):
        of_pixels = strict.signatures["embed_images"](images=tf.constant(images[:count]))["embedding"]
        assert of_pixels.shape == (count, 16)
        np.testing.assert_allclose(of_pixels, expected[:count], atol=1e-5)
    np.testing.assert_allclose(of_files, expected, atol=1e-5)
    assert np.ptp(of_files, axis=0).max() > 0.01


def test_learners_side_by_side_are_the_embedding(strict):
    learners = strict.signatures["embed_learners"](image_bytes=tf.constant(GOOD))["embeddings"].numpy()
    assert learners.shape == (3, 2, 8)
    np.testing.assert_allclose(np.linalg.norm(learners, axis=2), 1, atol=1e-5)
    joined = learners.reshape(3, 16) / np.sqrt(2)
    embeddings = strict.signatures["serving_default"](image_bytes=tf.constant(GOOD))["embedding"]
    np.testing.assert_allclose(embeddings, joined, atol=1e-5)
    assert strict.signatures["embed_learners"](image_bytes=tf.constant([], tf.string))["embeddings"].shape == (0, 2, 8)


def test_many_texts_are_embedded_in_parts(monkeypatch):
    model, texts, sizes = loaded(model_hash(exported_towers())), ["a red van", "a bus", "a cup", "a hat", "a pen"], []
    whole, signatures = model.embed_texts(texts), dict(model.signatures)

    def noted(embed):
        return lambda **inputs: sizes.append(*map(len, inputs.values())) or embed(**inputs)

    monkeypatch.setattr(ExportedModel, "signatures", {name: noted(embed) for name, embed in signatures.items()})
    monkeypatch.setattr(exported_model, "TEXTS", 2)
    np.testing.assert_allclose(model.embed_texts(texts), whole, atol=1e-6)
    assert sizes == [2, 2, 1] and model.embed_texts([]).shape == (0, 16)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_an_error_names_the_position_of_a_file_that_cannot_be_read(strict, bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Image\] \[2\] \[of the batch cannot be read"):
        strict.signatures["serving_default"](image_bytes=tf.constant([*GOOD[:2], bad, GOOD[2], bad]))


def test_a_tolerant_model_embeds_the_others(strict, tolerant):
    contents = [BAD["text"], GOOD[0], BAD["bomb"], GOOD[1], BAD["half"], BAD["nothing"], GOOD[2]]
    found = tolerant.signatures["serving_default"](image_bytes=tf.constant(contents))
    assert found["valid"].dtype == tf.bool and np.flatnonzero(found["valid"]).tolist() == [1, 3, 6]
    expected = strict.signatures["serving_default"](image_bytes=tf.constant(GOOD))["embedding"]
    np.testing.assert_allclose(found["embedding"].numpy()[[1, 3, 6]], expected, atol=1e-5)
    assert not found["embedding"].numpy()[[0, 2, 4, 5]].any()
    assert tolerant.signatures["embed_learners"](image_bytes=tf.constant(contents))["valid"].numpy().sum() == 3
    nothing = tolerant.signatures["serving_default"](image_bytes=tf.constant([], tf.string))
    assert nothing["embedding"].shape == (0, 16) and nothing["valid"].shape == (0,)


def test_requests_and_answers_are_those_that_tensorflow_serving_documents():
    specs = {name: tf.TensorSpec(None, kind) for name, kind in [("tag", tf.string), ("signal", tf.int32)]}
    specs["sensor"] = tf.TensorSpec(None, tf.float32)
    by_rows, by_columns = (rest.tensors(json.loads(each), specs) for each in (rest.IN_ROWS, rest.IN_COLUMNS))
    assert {name: values.shape for name, values in by_rows.items()} == {
        "tag": (2,),
        "signal": (2, 5),
        "sensor": (2, 2, 2),
    }
    for name, values in by_rows.items():
        np.testing.assert_array_equal(values, by_columns[name])
    request, expected = rest.HALF_PLUS_THREE
    given = rest.tensors(json.loads(request), {"x": tf.TensorSpec(None, tf.float32)})
    assert rest.in_rows({"y": given["x"] / 2 + 3}) == json.loads(expected)


def test_requests_of_tensorflow_serving(strict, tolerant):
    """In rows and columns, with and without the name of the input; of one output, and of two."""
    encoded = [{"b64": base64.b64encode(each).decode()} for each in GOOD]
    expected = strict.signatures["serving_default"](image_bytes=tf.constant(GOOD))["embedding"]
    rows, columns = {"instances": [{"image_bytes": each} for each in encoded]}, {"inputs": {"image_bytes": encoded}}
    for request in ({"instances": encoded}, rows, {"inputs": encoded}, columns):
        key = "outputs" if "inputs" in request else "predictions"
        body = json.loads(rest.answer(strict, json.dumps(request)))
        assert list(body) == [key]
        np.testing.assert_allclose(body[key], expected, atol=1e-5)
    files = [rest.IMAGE, encoded[0]]
    in_rows = json.loads(rest.answer(tolerant, json.dumps({"instances": files})))["predictions"]
    in_columns = json.loads(rest.answer(tolerant, json.dumps({"inputs": files})))["outputs"]
    assert [row["valid"] for row in in_rows] == in_columns["valid"] == [False, True]
    np.testing.assert_allclose([row["embedding"] for row in in_rows], in_columns["embedding"], atol=1e-5)
    np.testing.assert_allclose(in_columns["embedding"][1], expected[0], atol=1e-5)


def test_requests_of_other_signatures(strict):
    encoded = [{"b64": base64.b64encode(each).decode()} for each in GOOD]
    images = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.float32)
    learners = strict.signatures["embed_learners"](image_bytes=tf.constant(GOOD))["embeddings"]
    embedding = strict.signatures["embed_images"](images=tf.constant(images))["embedding"]
    cases = [("embed_learners", encoded, learners), ("embed_images", images.tolist(), embedding)]
    for (name, given, expected), (sent, answered) in itertools.product(
        cases, [("instances", "predictions"), ("inputs", "outputs")]
    ):
        body = json.loads(rest.answer(strict, json.dumps({"signature_name": name, sent: given})))
        np.testing.assert_allclose(body[answered], expected, atol=1e-5)


def test_a_projection_is_that_of_principal_components():
    embeddings = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32) * [5, 4, 3, 0.1, 0.1, 0.1] + 1
    centered = embeddings - embeddings.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)
    components = centered @ directions[:, ::-1][:, :3]
    for whiten, expected in ((False, components), (True, components / components.std(axis=0, ddof=1))):
        found = Projection.fit(embeddings, 3, whiten)(embeddings).numpy()
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_projections_that_training_embeddings_do_not_determine():
    embeddings = np.random.default_rng(0).normal(size=(5, 8))
    with pytest.raises(ValueError, match="can be projected to 1 to 4 dimensions, .* 5 images .* Received: 5"):
        Projection.fit(embeddings, 5)
    embeddings[:, 3:] = 0
    with pytest.raises(ValueError, match="vary in only 3 dimensions"):
        Projection.fit(embeddings, 4, whiten=True)


def test_files_are_read_alone_and_embedded_together(strict, tolerant):
    contents = [*GOOD, BAD["half"]]
    for model in (strict, tolerant):
        images = [model.read(each) for each in contents]
        assert [None if each is None else each.shape for each in images] == [(SIZE, SIZE, 3)] * 3 + [None]
        assert 0 <= images[0].min() and 100 < images[0].max() <= 255
        embeddings, valid = model.embed_readable(images[:3])
        assert valid.tolist() == [True] * 3
        np.testing.assert_allclose(embeddings, model.embed_readable(GOOD)[0], atol=1e-5)
        # Small ones are as they are.
        mixed, valid = model.embed_readable([contents[0], images[1], BAD["half"], contents[2]])
        assert valid.tolist() == [True, True, False, True]
        np.testing.assert_allclose(mixed[valid], embeddings, atol=1e-5)


def test_what_takes_long_to_decode_does_not_reach_a_model(strict, monkeypatch):
    slow, given, real = with_scans(110, 3200), [], ExportedModel._tried

    def noting(self, contents):
        given.extend(contents)
        return real(self, contents)

    monkeypatch.setattr(ExportedModel, "_tried", noting)
    assert strict.embed_readable([GOOD[0], slow])[1].tolist() == [True, False]
    assert GOOD[0] in given and slow not in given
    monkeypatch.setattr(ExportedModel, "signatures", {})
    assert strict.read(slow) is None
