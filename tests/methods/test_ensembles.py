"""Attention-based Ensemble, M-heads and M-tails."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.backbones import GoogLeNet, Small
from tfdml.evaluation import cost
from tfdml.layers.copies import copied
from tfdml.losses import Contrastive
from tfdml.methods import AttentionEnsemble, MultiHead, MultiTail, ensembles
from tfdml.run.directory.checkpoints import CheckpointFolder, restore, snapshot

IMAGES = np.random.default_rng(0).normal(size=(6, 16, 16, 3)).astype(np.float32)
LABELS = np.array([0, 0, 1, 1, 2, 2])
KINDS = {
    "attention": (AttentionEnsemble, {"attention_depth": 2}),
    "heads": (MultiHead, {}),
    "heads with attention": (MultiHead, {"attention": True, "attention_depth": 2}),
    "tails": (MultiTail, {}),
}


def by_day(*names):
    """All kinds, those but these for the nights."""
    return [kind if kind in names else pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS]


def make(kind="attention", learners=3, seed=0, **arguments):
    keras.utils.set_random_seed(seed)
    method, options = KINDS[kind]
    backbone = Small(width=4, stages=3)
    for layer in backbone.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            random = np.random.default_rng(len(layer.name))
            layer.set_weights([random.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    model = method(backbone, embedding_size=4 * learners, learners=learners, branch="stage1", **options, **arguments)
    model(IMAGES)
    return model


def attended(model, images):
    """S(x) and the masks of each learner, layer by layer from the backbone's own convolutions."""
    features = model.backbone.split_at("stage1")[0](images)
    looked = features
    for stage in ("stage2", "stage3"):
        for conv in (1, 2):
            for part in ("", "_norm", "_relu"):
                looked = model.backbone.get_layer(f"{stage}_conv{conv}{part}")(looked, training=False)
    masks = tf.sigmoid(tf.matmul(looked, model.masks.kernel) + model.masks.bias)
    return features, tf.split(masks, model.learners, axis=3)


@pytest.mark.parametrize("kind", KINDS)
def test_learners_are_what_equations_4_5_and_7_say(kind):
    model = make(kind)
    features, masks = attended(model, IMAGES) if model.masks else (None, None)
    for k in range(model.learners):
        first, second = model.firsts[k if kind == "tails" else 0], model.seconds[k if "heads" in kind else 0]
        taken = first(IMAGES) if masks is None else features * masks[k]
        expected = model.heads[k if "heads" in kind else 0](second(taken))
        np.testing.assert_allclose(model.learner_embeddings(IMAGES)[:, k], expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_begin_equal_and_go_their_own_way(kind):
    model = make(kind)
    copies = model.backbones()[1:]
    assert len(copies) == {"attention": 1, "heads": 2, "heads with attention": 3, "tails": 2}[kind]
    own = {weight.path: weight for weight in model.backbone.weights}
    for copy in copies:
        for weight in copy.weights:
            layer, _, name = weight.path.rpartition("/")
            original = own[f"{layer.split('_', 1)[1]}/{name}"]
            assert original is not weight
            if kind == "tails" and name == "kernel":
                # What is shared behind them would keep equal ones equal.
                assert 0.02 < np.std(weight / original - 1) < 0.1
            else:
                np.testing.assert_array_equal(original, weight)
    paths = [weight.path for weight in model.weights if "loss" not in weight.path and "seed" not in weight.path]
    assert len(set(paths)) == len(paths)


@pytest.mark.slow
def test_attention_keeps_the_resolution_without_poolings():
    model = AttentionEnsemble(GoogLeNet(), embedding_size=8, learners=2)
    model(np.zeros((1, 64, 64, 3), np.float32))
    names = {layer.name for layer in model.attention.layers}
    assert "attention_inception_4a" in names and "attention_inception_4e" in names
    assert "attention_inception_5a" not in names
    assert model.attention_masks(np.zeros((2, 64, 64, 3), np.float32)).shape == (2, 2, 4, 4, 480)


def test_the_loss_is_equation_8():
    model = make(divergence_weight=0.5, divergence_margin=0.75)
    model.compile("sgd", loss=Contrastive())
    learners = model.learner_embeddings(IMAGES).numpy()
    values = model.loss_values({"label": tf.constant(LABELS)}, tf.constant(learners)).numpy()
    expected = sum(Contrastive().call(LABELS, learners[:, k]).numpy() for k in range(3))
    for row in range(len(LABELS)):
        for p in range(3):
            for q in range(3):
                squared = np.sum((learners[row, p] - learners[row, q]) ** 2)
                expected[row] += 0.5 * (p != q) * max(0.0, 0.75 - squared)
    np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", by_day("attention", "tails"))
def test_it_trains_and_comes_back_from_a_file(kind, tmp_path):
    model = make(kind)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), loss=Contrastive(), run_eagerly=True)
    model.fit(IMAGES, LABELS, batch_size=6, epochs=1, verbose=0)
    moved = [np.any(old != new.numpy()) for old, new in zip(before, model.trainable_weights, strict=True)]
    assert np.mean(moved) > 0.9
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(IMAGES), model(IMAGES))
    assert loaded.get_config() == model.get_config()


@pytest.mark.slow
@pytest.mark.parametrize("kind", by_day("heads with attention"))
def test_another_process_goes_on_from_a_checkpoint_with_the_same_bits(kind, tmp_path):
    """What it begins with is another seed's, so whatever the checkpoint lacks would show."""

    def trained(model, steps):
        for _ in range(steps):
            model.train_on_batch(IMAGES, LABELS)
        return model

    def compiled(seed):
        # Names are counted anew, as in another process.
        keras.utils.clear_session()
        model = make(kind, seed=seed, head=tfdml.heads.Linear(dropout=0.3))
        model.compile(keras.optimizers.Adam(0.01), loss=Contrastive(), run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
        return model

    def kept(model):
        return model.variables + model.optimizer.variables

    first, folder = trained(compiled(0), 2), CheckpointFolder(tmp_path)
    folder.write(2, snapshot(kept(first), first.distribute_strategy), {})
    again = compiled(1)
    differ = [np.any(one.numpy() != other.numpy()) for one, other in zip(kept(first), kept(again), strict=True)]
    assert np.mean(differ) > 0.5
    _, arrays, _ = folder.read_newest(warn=pytest.fail)
    restore(kept(again), arrays, again.distribute_strategy)
    for one, other in zip(kept(trained(first, 2)), kept(trained(again, 2)), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.path)


@pytest.mark.slow
def test_the_heads_are_one_group():
    model = make("heads")
    model.compile(tfdml.optimizers.SGD(0.1, lr_multipliers={"embedding": 0}), loss=Contrastive(), run_eagerly=True)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.fit(IMAGES, LABELS, batch_size=6, verbose=0)
    moved = {
        weight.path
        for old, weight in zip(before, model.trainable_weights, strict=True)
        if np.any(old != weight.numpy())
    }
    assert moved and not any("embedding" in path for path in moved)


@pytest.mark.slow
@pytest.mark.parametrize("kind", by_day("attention"))
def test_what_one_learner_costs(kind):
    model, one = make(kind), make(kind, learners=1)
    assert cost(model.of_one_learner(), IMAGES.shape[1:]) == cost(one, IMAGES.shape[1:])


@pytest.mark.slow
def test_no_two_learners_stay_equal():
    """Nor do tails, whose only difference at the start is a little noise."""
    model = make("tails")
    model.compile(keras.optimizers.SGD(0.05), loss=Contrastive())
    model.fit(IMAGES, LABELS, batch_size=6, epochs=20, verbose=0)
    learners = np.asarray(model.learner_embeddings(IMAGES))
    cosines = [np.sum(learners[:, p] * learners[:, q], axis=1).mean() for p, q in ((0, 1), (0, 2), (1, 2))]
    assert max(cosines) < 0.9


@pytest.mark.slow
def test_nothing_is_retraced():
    traces, model = [], make()
    original = model.learner_embeddings
    model.learner_embeddings = lambda *args, **more: (traces.append(1), original(*args, **more))[1]
    model.compile("sgd", loss=Contrastive())
    for _ in range(3):
        model.fit(IMAGES, LABELS, batch_size=6, epochs=2, verbose=0)
    assert len(traces) == 1


def test_masks_of_another_resolution_are_refused(monkeypatch):
    monkeypatch.setattr(ensembles, "copied", lambda part, prefix, keep_resolution=False: copied(part, prefix))
    with pytest.raises(ValueError, match=r"masks of \(4, 4\) positions for features of \(16, 16\)"):
        make()


@pytest.mark.parametrize("kind", ["attention", "heads with attention"])
def test_masks_begin_around_a_value(kind):
    model = make(kind, initial_mask=0.9)
    looked = np.zeros((1, 2, 2, model.masks.kernel.shape[0]), np.float32)
    np.testing.assert_allclose(model.masks(looked), 0.9, rtol=1e-6)
    assert type(model).from_config(model.get_config()).masks.initial == 0.9
    np.testing.assert_array_equal(make(kind).masks(looked), 0.5)


def test_copies_without_batch_norm_are_no_hindrance_to_freezing():
    backbone = Small(width=4, stages=2)
    model = MultiHead(backbone, embedding_size=8, learners=2, branch="stage2", freeze_batch_norm="statistics")
    assert model(IMAGES).shape == (6, 8)


def test_one_learner_has_no_divergence():
    model = make(learners=1)
    model.compile("sgd", loss=Contrastive())
    learners = model.learner_embeddings(IMAGES)
    values = model.loss_values({"label": tf.constant(LABELS)}, learners)
    np.testing.assert_array_equal(values, Contrastive().call(LABELS, learners[:, 0]))


def test_bad_arguments():
    with pytest.raises(ValueError, match="size 10 cannot be split into 3 equal"):
        AttentionEnsemble(Small(width=4), embedding_size=10, learners=3, branch="stage1")
    with pytest.raises(ValueError, match="4 learners of 4 dimensions have one each, which is 1 or -1 at unit length"):
        AttentionEnsemble(Small(width=4), embedding_size=4, learners=4, branch="stage1")
    with pytest.raises(ValueError, match="Unknown endpoint 'pool3' of small. Known: stage1"):
        AttentionEnsemble(Small(width=4), embedding_size=8, learners=2, branch="pool3")
    with pytest.raises(ValueError, match="from 1 to 3 blocks after 'stage1' of small, received 5"):
        AttentionEnsemble(Small(width=4), embedding_size=8, learners=2, branch="stage1", attention_depth=5)
    for option in ({"attention_depth": 2}, {"initial_mask": 0.95}):
        with pytest.raises(ValueError, match="have no effect without masks. Pass attention=True"):
            MultiHead(Small(width=4), embedding_size=6, learners=3, branch="stage1", **option)
