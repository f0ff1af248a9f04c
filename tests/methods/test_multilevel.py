"""Embeddings of several depths."""

import itertools
import math
import warnings

import keras
import numpy as np
import pytest

import tfdml
from tests.commands import Forked
from tests.run_helpers import assert_same_run, assert_went_on, steps, train, train_flags
from tfdml.evaluation import cost
from tfdml.losses import RankedListSimpler

LEVELS = ("stage1", "stage2", "stage3")


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 24, 24, 3)).astype(np.float32), np.repeat(np.arange(4), 4)


def make_model(**arguments):
    arguments = {"endpoints": LEVELS, "embedding_size": 24, "reduced": 8, "hidden": 16, **arguments}
    return tfdml.methods.Multilevel(tfdml.backbones.Small(width=8, stages=3), **arguments)


def test_each_level_is_a_learner_with_the_loss_of_its_own(batch):
    images, labels = batch
    model = make_model()
    learners = model.learner_embeddings(images)
    assert learners.shape == (16, 3, 8)
    np.testing.assert_allclose(np.linalg.norm(learners, axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model(images), np.reshape(learners, (16, 24)) / np.sqrt(3), atol=1e-6)
    loss = RankedListSimpler()
    model.compile("sgd", loss=loss)
    expected = sum(np.asarray(loss.call(labels, learners[:, level])) for level in range(3))
    np.testing.assert_allclose(model.loss_values({"label": labels}, learners), expected, rtol=1e-6)


def cascaded(labels, learners, shares):
    """The pairs of each level, sorted one kind at a time: those of the level before, the hardest first."""
    pairs = list(itertools.permutations(range(len(labels)), 2))
    kinds = [[pair for pair in pairs if (labels[pair[0]] == labels[pair[1]]) == same] for same in (True, False)]
    sizes, levels = [len(kind) for kind in kinds], []
    for level, share in enumerate(shares):
        if level:
            rows = np.asarray(learners[:, level - 1], np.float64)
            for number, sign in enumerate((-1, 1)):
                hardest = sorted(
                    kinds[number], key=lambda pair, sign=sign: sign * math.dist(rows[pair[0]], rows[pair[1]])
                )
                kinds[number] = hardest[: math.ceil(share * sizes[number])]
        levels.append([set(kind) for kind in kinds])
    return levels


# Both orders of a pair are as hard, so that the number of pairs is even.
@pytest.mark.parametrize("shares", [(1.0, 0.5, 0.25), (1.0, 1.0, 0.125), (1.0, 0.25, 0.25)])
def test_a_cascade_learns_from_the_hardest_pairs_of_the_level_before(batch, shares):
    images, labels = batch
    model = make_model(cascade=shares)
    learners = model.learner_embeddings(images)
    model.compile("sgd", loss="contrastive(margin=1.0)")
    expected = np.zeros(16)
    for level, (near, far) in enumerate(cascaded(labels, learners, shares)):
        rows = np.asarray(learners[:, level], np.float64)
        for i, j in near:
            expected[i] += math.dist(rows[i], rows[j]) ** 2
        for i, j in far:
            expected[i] += max(0.0, 1.0 - math.dist(rows[i], rows[j]))
    values = model.loss_values({"label": labels}, learners, training=True)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    plain = make_model()
    plain.compile("sgd", loss="contrastive(margin=1.0)")
    assert np.sum(values) < np.sum(plain.loss_values({"label": labels}, learners, training=True)) - 0.1
    whole = make_model(cascade=(1.0, 1.0, 1.0))
    whole.compile("sgd", loss="contrastive(margin=1.0)")
    np.testing.assert_allclose(*(each.loss_values({"label": labels}, learners) for each in (whole, plain)), rtol=1e-5)


@pytest.mark.nightly
def test_a_cascade_trains_saves_and_loads(batch, tmp_path):
    model = make_model(cascade=(1.0, 0.5, 0.2))
    model.compile(keras.optimizers.Adam(0.01), loss="contrastive")
    history = model.fit(*batch, batch_size=16, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.cascade == (1.0, 0.5, 0.2)
    value = model.evaluate(*batch, batch_size=16, verbose=0)[0]
    assert loaded.evaluate(*batch, batch_size=16, verbose=0)[0] == pytest.approx(value, rel=1e-5)


def test_a_cascade_that_cannot_be_is_named(batch):
    for shares in ((1.0, 0.5), (1.0, 0.2, 0.5)):
        with pytest.raises(ValueError, match="one share for each of 3 endpoints, and no share may be larger"):
            make_model(cascade=shares)
    images, labels = batch
    for arguments in (
        {"loss": "proxy_nca(classes=4)"},
        {"loss": "contrastive", "memory": "xbm(size=16)"},
        {"loss": "by_level(loss='contrastive')"},
    ):
        model = make_model(cascade=(1.0, 0.5, 0.2), freeze_batch_norm="all")
        model.compile("sgd", **arguments, run_eagerly=True)
        with pytest.raises(ValueError, match="Expected a pair-based loss without variables, .* and no memory"):
            model.fit(images, labels, batch_size=16, verbose=0)


@pytest.mark.nightly
def test_what_the_loss_finds_is_told_of_each_level(batch):
    """Over the batches of an epoch; those of the first epoch do not count in the second."""
    model = make_model()
    model(batch[0])
    model.compile(keras.optimizers.SGD(0.0), loss=RankedListSimpler())
    found = model.fit(*batch, batch_size=8, epochs=2, shuffle=False, verbose=0) and model.loss_statistics()
    halves = [slice(0, 8), slice(8, 16)]
    for level in range(3):
        expected = []
        for half in halves:
            learners = model.learner_embeddings(batch[0][half], training=True)[:, level]
            expected.append({k: float(v) for k, v in model.loss.statistics(batch[1][half], learners).items()})
        for name in expected[0]:
            values = [each[name] for each in expected if each[name] == each[name]]
            mean = found.pop(f"{name}_of_learner_{level}", None)
            assert mean == (pytest.approx(np.mean(values), rel=1e-3) if values else None), name
    names = [f"{kind}_distance_of_learner_{level}" for level in range(3) for kind in ("positive", "negative")]
    assert list(found) == names


@pytest.mark.nightly
def test_linear_layers_alone_can_have_a_learning_rate_of_their_own(batch):
    model = make_model()
    model(batch[0])
    # 0 shows which variables it is: they stay.
    optimizer = tfdml.optimizers.SGD(0.01, lr_multipliers={f"level{number}": 0 for number in range(3)})
    model.compile(optimizer, loss="triplet")
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(*batch, batch_size=16, verbose=0)
    stay = {
        variable.path
        for variable, old in zip(model.trainable_variables, before, strict=True)
        if np.array_equal(variable.numpy(), old)
    }
    linear = {weight.path for projection in model.head.projections for weight in projection.trainable_variables}
    assert len(linear) == 6 and stay == linear


@pytest.mark.nightly
def test_pooling_norm_and_dropout_of_levels(batch, tmp_path):
    model = make_model(head=tfdml.heads.Linear(pooling="max", norm="layer", dropout=0.5))
    model(batch[0])
    learners = model.learner_embeddings(batch[0])
    features = np.asarray(model.levels(batch[0])[-1]).max(axis=(1, 2))
    features = (features - features.mean(axis=1, keepdims=True)) / np.sqrt(features.var(axis=1, keepdims=True) + 1e-3)
    projection = model.head.projections[-1]
    expected = features @ np.asarray(projection.kernel)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(learners[:, -1], expected, atol=1e-4)
    assert sum("norm" in weight.path and "features/norm" in weight.path for weight in model.trainable_weights) == 6
    dropped = model.learner_embeddings(batch[0], training=True)
    assert all(np.abs(dropped - learners)[:, level].max() > 0.01 for level in range(3))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.learner_embeddings(batch[0]), model.learner_embeddings(batch[0]))
    with pytest.raises(ValueError, match="'none', 'batch', 'layer'. Received: norm='group'"):
        make_model(head=tfdml.heads.Linear(norm="group"))


@pytest.mark.parametrize(
    "method", [tfdml.AttentionEnsemble, tfdml.MultiHead, tfdml.MultiTail, tfdml.methods.Multilevel]
)
def test_a_backbone_that_cannot_be_divided_is_told(method):
    plain = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 1)], name="plain")
    with pytest.raises(ValueError, match="plain has one endpoint, 'output', and no stages before it. This"):
        method(plain)
    images, numbers = keras.Input((8, 8, 3)), keras.Input((4,))
    several = keras.Model([images, numbers], keras.layers.Conv2D(4, 1)(images), name="several")
    for model in (keras.Sequential([keras.layers.Conv2D(4, 1)], name="unbuilt"), several, keras.layers.Dense(2)):
        expected = f"{method.__name__} must .* its backbone. Expected .* to one tensor. Received: .* '{model.name}'"
        with pytest.raises(ValueError, match=expected):
            method(model)


def test_an_unknown_endpoint_is_told():
    with pytest.raises(ValueError, match="small has no endpoint 'inception_3c'. Use one of: stage1, stage2, stage3"):
        make_model(endpoints=("inception_3c", "stage3"))
    with pytest.raises(ValueError, match="each endpoint only once. Received: endpoints=.'stage1', 'stage1'"):
        make_model(endpoints=("stage1", "stage1"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.few_by_day(1)
def test_a_level_is_the_same_alone_as_beside_others(batch, level):
    """The shallow ones are auxiliary, the output of the backbone is not."""
    beside, alone = make_model(), make_model(endpoints=(level,), embedding_size=8)
    together = np.asarray(beside.learner_embeddings(batch[0]))
    assert alone.learner_embeddings(batch[0]).shape == (16, 1, 8)
    place = LEVELS.index(level)
    own = [beside.head.branches[place], beside.head.projections[place]]
    alone.backbone.set_weights(beside.backbone.get_weights())
    for mine, other in zip((alone.head.branches[0], alone.head.projections[0]), own, strict=True):
        mine.set_weights(other.get_weights())
    np.testing.assert_allclose(alone.learner_embeddings(batch[0])[:, 0], together[:, place], atol=1e-6)


def test_the_deepest_level_alone_is_one_embedding_of_the_backbone(batch):
    alone, single = make_model(endpoints=LEVELS[-1:], embedding_size=8), tfdml.Single(make_model().backbone, 8)
    single(batch[0])
    alone(batch[0])
    assert [weight.shape for weight in alone.weights] == [weight.shape for weight in single.weights]
    single.set_weights(alone.get_weights())
    np.testing.assert_allclose(alone(batch[0]), single(batch[0]), atol=1e-6)


def test_which_levels_are_auxiliary_can_be_said(batch):
    assert make_model().auxiliary == LEVELS[:2] and make_model(endpoints=LEVELS[::-1]).auxiliary == LEVELS[1::-1]
    plain = make_model(auxiliary=())
    levels = plain.levels(batch[0])
    plain(batch[0])
    for place, projection in enumerate(plain.head.projections):
        expected = np.asarray(levels[place]).mean(axis=(1, 2)) @ np.asarray(projection.kernel)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(plain.learner_embeddings(batch[0])[:, place], expected, atol=1e-5)
    # Nothing reads all positions.
    assert plain(np.ones((1, 40, 32, 3), np.float32)).shape == (1, 24)
    with pytest.raises(ValueError, match="Expected some of stage1. Received: 'stage2'"):
        make_model(endpoints=("stage1",), auxiliary=("stage2",))


def test_what_is_behind_the_deepest_level_does_not_learn(batch):
    model = make_model(endpoints=LEVELS[:1], embedding_size=8)
    model(batch[0])
    model.compile(keras.optimizers.SGD(0.1), loss=RankedListSimpler(), run_eagerly=True)
    before = [weight.numpy() for weight in model.trainable_weights]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Gradients do not exist")
        model.fit(*batch, batch_size=16, verbose=0)
    same = [np.array_equal(weight, old) for weight, old in zip(model.trainable_weights, before, strict=True)]
    behind = ["stage2" in weight.path or "stage3" in weight.path for weight in model.trainable_weights]
    assert all(behind[place] for place in np.flatnonzero(same)) and sum(same) == sum(behind) == 12
    used = sum(math.prod(weight.shape) for weight, no in zip(model.trainable_weights, behind, strict=True) if not no)
    assert cost(model, (24, 24, 3))["parameters"] == used


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("endpoints", [("stage1",), ("stage1", "stage2")])
def test_a_killed_run_goes_on_with_its_levels_and_temperatures(endpoints, tmp_path):
    """Both losses of the sum have a temperature that changes from step to step, for all levels."""
    more = [
        f"--method=multilevel(endpoints={endpoints}, reduced=8, hidden=16)",
        "--loss=ranked_list(final_negative_temperature=0.0)+0.5*ranked_list_simpler(final_negative_temperature=20.0)",
    ]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    done = train(straight, *more)
    assert done.returncode == 0, done.stderr
    flags = train_flags(killed, *more, "--checkpoint_every=3")
    assert Forked("tfdml.train", *flags).until(lambda: len(steps(killed)) >= 2).kill().returncode == -9
    assert max(steps(killed)) < max(steps(straight))
    done = train(killed, *more, "--checkpoint_every=3")
    assert done.returncode == 0, done.stderr
    assert_went_on(killed, done)
    assert_same_run(killed, straight)
