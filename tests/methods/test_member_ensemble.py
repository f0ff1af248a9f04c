"""Networks that were trained apart as one model: fusion, files, export."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.preprocessing import Preprocessing
from tfdml.backbones import Small
from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity, learners_of
from tfdml.evaluation.evaluate import evaluate, fuse
from tfdml.methods import MemberEnsemble
from tfdml.registry import create

IMAGES = np.random.default_rng(0).random((8, 8, 8, 3), np.float32)
LABELS = np.arange(8) // 2


def member(spec="single", size=4, seed=0):
    """A method's model with variables."""
    keras.utils.set_random_seed(seed)
    model = create("method", spec, backbone=Small(width=2, stages=2), embedding_size=size)
    model.preprocessing = Preprocessing(image_size=8)
    model(IMAGES)
    return model


WEIGHTS = [1.0, 2.0, 0.5]


@pytest.fixture(scope="module")
def members():
    """One of two learners, one whose embeddings have no unit length, of different sizes."""
    return [
        member("divide_and_conquer(learners=2)", size=6),
        member("single(normalize=False)", size=3, seed=1),
        member(size=4, seed=2),
    ]


@pytest.fixture(scope="module")
def ensemble(members):
    return MemberEnsemble(members, WEIGHTS)


def expected(members, weights):
    return fuse([np.asarray(each(IMAGES)) for each in members], weights)


def test_it_is_the_fusion_of_its_members(members, ensemble):
    found = np.asarray(ensemble(IMAGES))
    np.testing.assert_allclose(found, expected(members, WEIGHTS), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    plain = MemberEnsemble(members)
    np.testing.assert_allclose(plain(IMAGES), expected(members, None), atol=1e-6)


def test_its_learners_are_the_members(members, ensemble):
    found = np.asarray(ensemble(IMAGES))
    learners = learners_of(found, ensemble.learner_count)
    assert ensemble.learner_count == len(members)
    for k, each in enumerate(members):
        alone = np.asarray(each(IMAGES))
        alone = alone / np.linalg.norm(alone, axis=1, keepdims=True)
        np.testing.assert_allclose(learners[:, k, : alone.shape[1]], alone, atol=1e-6)
        assert not learners[:, k, alone.shape[1] :].any()


def test_it_comes_back_from_a_file(members, ensemble, tmp_path):
    before = np.asarray(ensemble(IMAGES))
    ensemble.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert (np.asarray(loaded(IMAGES)) == before).all()
    assert loaded.member_weights == WEIGHTS
    assert loaded.preprocessing == ensemble.preprocessing == Preprocessing(image_size=8)
    assert loaded.learner_count == len(members)
    assert loaded.count_params() == sum(each.count_params() for each in members)


def test_its_cost_is_that_of_all_members(members, ensemble):
    alone = [cost(each, (8, 8, 3)) for each in members]
    assert cost(ensemble, (8, 8, 3)) == {name: sum(each[name] for each in alone) for name in alone[0]}


@pytest.mark.slow
def test_the_exported_model_is_the_concatenation(members, ensemble, tmp_path):
    ensemble(IMAGES)
    ensemble.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(IMAGES), expected(members, WEIGHTS), atol=1e-5)


def test_half_precision_of_a_member_stays_its_own():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rough = member()
    finally:
        keras.config.set_dtype_policy("float32")
    exact = member(seed=1)
    found = np.asarray(MemberEnsemble([rough, exact])(IMAGES))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 4:] * np.sqrt(2), exact(IMAGES), atol=1e-6)


def test_the_first_members_together_are_an_ensemble_of_these(members, ensemble):
    """Figure 4 of EDMS: each number of members equals an evaluation of its own."""
    embeddings = np.asarray(ensemble(IMAGES))
    found = diversity(embeddings, LABELS, len(members), lambda each: evaluate(each, LABELS), weights=WEIGHTS)
    for count in range(1, len(members) + 1):
        together = fuse([np.asarray(each(IMAGES)) for each in members[:count]], WEIGHTS[:count])
        assert found["first"][count - 1] == evaluate(together, LABELS)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, 1.0, 1.0]])
def test_a_positive_weight_for_each_member(weights):
    one = member()
    with pytest.raises(ValueError, match="Expected 2 weights. Received: member_weights="):
        MemberEnsemble([one, one], weights)


def test_members_are_models_of_methods():
    with pytest.raises(ValueError, match="such as tfdml.Single. Received: Sequential"):
        MemberEnsemble([keras.Sequential()])
