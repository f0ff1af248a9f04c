"""Attention-based Ensemble, M-heads and M-tails."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.commands import Forked, run
from tests.night import others_at_night
from tests.run_helpers import assert_same_run, assert_went_on, result, steps, train, train_flags
from tfdml.backbones import Small
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
    return others_at_night(KINDS, names)


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
@pytest.mark.few_by_day(2)
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


@pytest.mark.nightly
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


def test_masks_of_another_resolution_are_refused(monkeypatch):
    monkeypatch.setattr(ensembles, "copied", lambda part, prefix, keep_resolution=False: copied(part, prefix))
    with pytest.raises(ValueError, match=r"masks have \(4, 4\) positions, but the features have \(16, 16\)"):
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


def test_bad_arguments():
    with pytest.raises(ValueError, match="size 10 cannot be split into 3 equal"):
        AttentionEnsemble(Small(width=4), embedding_size=10, learners=3, branch="stage1")
    with pytest.raises(ValueError, match="size 4 split into 4 learners has one dimension per learner"):
        AttentionEnsemble(Small(width=4), embedding_size=4, learners=4, branch="stage1")
    with pytest.raises(ValueError, match="small has no endpoint 'pool3'. Use one of: stage1"):
        AttentionEnsemble(Small(width=4), embedding_size=8, learners=2, branch="pool3")
    with pytest.raises(ValueError, match="blocks after 'stage1' of small must be from 1 to 3. Received: 5"):
        AttentionEnsemble(Small(width=4), embedding_size=8, learners=2, branch="stage1", attention_depth=5)
    for option in ({"attention_depth": 2}, {"initial_mask": 0.95}):
        with pytest.raises(ValueError, match="have no effect without attention. .* Pass attention=True"):
            MultiHead(Small(width=4), embedding_size=6, learners=3, branch="stage1", **option)


@pytest.mark.slow
@pytest.mark.nightly
def test_by_the_command_line_killed_and_taken_up_again_with_pairs_and_pictures(tmp_path):
    run_dir, killed = tmp_path / "run", tmp_path / "killed"
    method = "--method=attention_ensemble(learners=2, branch='stage1', attention_depth=1)"
    more = [method, "--sampler=pairs(images=8)", "--loss=contrastive", "--epochs=1", "--checkpoint_every=3"]
    done = train(run_dir, *more)
    assert done.returncode == 0, done.stderr
    Forked("tfdml.train", *train_flags(killed, *more)).until(lambda: steps(killed)).kill()
    assert not (killed / "result.json").exists()
    done = train(killed, *more)
    assert done.returncode == 0, done.stderr
    assert_went_on(killed, done)
    assert_same_run(killed, run_dir)
    found = result(run_dir)
    assert found["learners"]["pair_cosines"]["mean_self"] < 1
    assert 0 < found["cost"]["one_learner"]["multiply_adds"] < found["cost"]["multiply_adds"]
    done = run("tfdml.report", f"--run_dir={run_dir}")
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in (run_dir / "report").iterdir()}
    assert {"learners.png", "pair_cosines.png", "attention.png"} <= drawn
    assert list((run_dir / "tensorboard" / "report").iterdir())
    # A run that goes on has learners, too.
    for name in ("result.json", "report/learners.png"):
        (run_dir / name).unlink()
    only = "--only=attention,learners,page"
    done = run("tfdml.report", f"--run_dir={run_dir}", only, "--channels=0,3", "--learners=1")
    assert done.returncode == 0, done.stderr
    assert (run_dir / "report" / "learners.png").exists()
    assert "Each learner alone" in (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    done = run("tfdml.report", f"--run_dir={run_dir}", "--only=attention", "--channels=999")
    # After the warning that the run is not complete.
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: channels must be from 0 to 7. Received: channels=[999]."
