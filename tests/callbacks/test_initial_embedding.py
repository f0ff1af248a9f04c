"""Training begins with principal components or discriminants of the features."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.commands import run
from tests.run_helpers import result, train_flags
from tfdml.callbacks import InitialEmbedding, RetrievalEvaluation, WeightAverage
from tfdml.neighbors.nearest import unit_length
from tfdml.neighbors.projections import linear_discriminants, within_class_whitened_components
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.training.gain import gain_in_words

ROWS, WIDTH = 60, 12
LABELS = np.arange(ROWS) // 10


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    classes = random.normal(size=(6, 1, 1, 3)).repeat(ROWS // 6, axis=0)
    return (random.normal(size=(ROWS, 8, 8, 3)) + classes).clip(-2, 2).astype(np.float32)


def backbone():
    return tfdml.backbones.Small(width=WIDTH // 2, stages=2)


def begun(model, images, kind):
    model(images[:1])
    InitialEmbedding(images, LABELS, kind=kind).apply(model)
    return model(images).numpy()


def components(features, places, whiten, of=None):
    """The projections on the principal components at these places, of those `of` a layer, by a decomposition."""
    centered = features - features.mean(axis=0)
    _, values, directions = np.linalg.svd(centered, full_matrices=False)
    variances = np.square(values) / (len(features) - 1)
    mean = variances[places if of is None else of].mean()
    return centered @ directions[places].T / (np.sqrt(variances[places] + mean / 10) if whiten else 1.0)


def cosines(embeddings):
    rows = unit_length(np.asarray(embeddings, np.float64))
    return rows @ rows.T


@pytest.mark.parametrize("kind", ["pca", "pca_whitened"])
def test_one_embedding(images, kind):
    model = tfdml.Single(backbone(), embedding_size=5)
    found = begun(model, images, kind)
    features = model.backbone(images).numpy().mean(axis=(1, 2))
    expected = components(features, np.arange(5), whiten=kind == "pca_whitened")
    np.testing.assert_allclose(cosines(found), cosines(expected), atol=1e-4)


def discriminants(features, places, labels=LABELS, directions=linear_discriminants):
    return (features - features.mean(axis=0)) @ directions(features, labels, max(places) + 1)[:, places]


@pytest.mark.parametrize(
    "kind, directions", [("lda", linear_discriminants), ("wccn", within_class_whitened_components)]
)
def test_directions_of_classes(images, kind, directions):
    model = tfdml.Single(backbone(), embedding_size=5)
    found = begun(model, images, kind)
    features = model.backbone(images).numpy().mean(axis=(1, 2))
    expected = discriminants(features, np.arange(5), directions=directions)
    np.testing.assert_allclose(cosines(found), cosines(expected), atol=1e-4)


def vectors_of(scales, *, separating, classes=12, of_each=10):
    """Vectors with noise of these scales within classes, and class means that differ in some directions."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(classes * of_each, len(scales))) * scales
    labels = np.arange(classes).repeat(of_each)
    vectors[:, separating] += random.normal(size=(classes, len(separating)))[labels] * 2
    return vectors.astype(np.float32), labels


def test_auto_chooses_on_classes_that_were_held_out():
    """Noise of a large variance misleads principal components, but not discriminants."""
    vectors, labels = vectors_of([9.0, 9.0, 9.0, 0.1, 0.1, 0.1], separating=[3, 4, 5])
    told = []
    model = tfdml.Single(tfdml.backbones.Identity(6), embedding_size=3)
    model.call_on((1, 6))
    initial = InitialEmbedding(vectors, labels, kind="auto", on_choice=lambda *choice: told.append(choice))
    initial.apply(model)
    ((kind, recalls),) = told
    assert kind == "lda" and set(recalls) == {"pca", "pca_whitened", "lda", "wccn"}
    assert recalls["lda"] > 0.8 > 0.4 > recalls["pca"]
    other = tfdml.Single(tfdml.backbones.Identity(6), embedding_size=3)
    other.call_on((1, 6))
    InitialEmbedding(vectors, labels, kind="lda").apply(other)
    np.testing.assert_allclose(cosines(model(vectors)), cosines(other(vectors)), atol=1e-5)


def test_auto_needs_classes_to_hold_out():
    """Three classes cannot be divided into parts of two, so nothing is compared."""
    vectors, labels = vectors_of([1.0, 1.0, 1.0], separating=[0], classes=3)
    model = tfdml.Single(tfdml.backbones.Identity(3), embedding_size=2)
    model.call_on((1, 3))
    InitialEmbedding(vectors, labels, kind="auto", on_choice=pytest.fail).apply(model)
    expected = discriminants(vectors, np.arange(2), labels, within_class_whitened_components)
    np.testing.assert_allclose(cosines(model(vectors)), cosines(expected), atol=1e-4)


@pytest.mark.parametrize("method", [tfdml.MultiHead, tfdml.DivideAndConquer, tfdml.AttentionEnsemble])
def test_auto_compares_for_several_learners(images, method):
    """What is compared is as many embeddings as there are held-out images."""
    options = {"branch": "stage1", "attention_depth": 1} if method is tfdml.AttentionEnsemble else {}
    model = method(backbone(), embedding_size=8, learners=2, **options)
    told = []
    model(images[:1])
    InitialEmbedding(images, LABELS, kind="auto", on_choice=lambda kind, recalls: told.append((kind, recalls))).apply(
        model
    )
    ((kind, recalls),) = told
    assert recalls[kind] == max(recalls.values()) and all(0 <= recall <= 1 for recall in recalls.values())


def test_weights_are_as_large_as_before(images):
    model = tfdml.Single(backbone(), embedding_size=5)
    model(images[:1])
    before = np.linalg.norm(model.head.projection.kernel)
    begun(model, images, "pca_whitened")
    assert np.linalg.norm(model.head.projection.kernel) == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize(
    "method, kind, expected",
    [
        (tfdml.MultiHead, "pca_whitened", partial(components, whiten=True)),
        (tfdml.DivideAndConquer, "pca_whitened", partial(components, whiten=True, of=np.arange(8))),
        (tfdml.DivideAndConquer, "lda", discriminants),
    ],
    ids=["a layer each", "slices of one", "discriminants"],
)
def test_learners_share_the_directions_out(images, method, kind, expected):
    """The first learner has the first, third, ... direction, and all together have all."""
    model = method(backbone(), embedding_size=8, learners=2)
    begun(model, images, kind)
    learners = model(images, merged=False).numpy()
    features = model.backbone(images).numpy().mean(axis=(1, 2))
    for k in range(2):
        np.testing.assert_allclose(cosines(learners[:, k]), cosines(expected(features, np.arange(k, 8, 2))), atol=1e-4)


def test_each_level_has_its_own(images):
    model = tfdml.Multilevel(backbone(), embedding_size=8, endpoints=("stage1", "stage2"), auxiliary=())
    begun(model, images, "pca")
    learners = model(images, merged=False).numpy()
    for k, level in enumerate(model.levels(images)):
        expected = components(level.numpy().mean(axis=(1, 2)), np.arange(4), whiten=False)
        np.testing.assert_allclose(cosines(learners[:, k]), cosines(expected), atol=1e-4)


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("pca_whitened", partial(components, whiten=True)),
        # An image has its class with each learner.
        ("lda", partial(discriminants, labels=LABELS.repeat(2))),
    ],
)
def test_a_layer_that_learners_share_sees_the_features_of_all(images, kind, expected):
    model = tfdml.AttentionEnsemble(backbone(), embedding_size=8, learners=2, branch="stage1", attention_depth=1)
    begun(model, images, kind)
    features = model.learner_features(images)
    seen = model.seconds[0](tf.reshape(features, (-1, *features.shape[2:]))).numpy().mean(axis=(1, 2))
    rows = unit_length(expected(seen, np.arange(4))).reshape(ROWS, 2, 4)
    np.testing.assert_allclose(
        np.einsum("ikd,jkd->ijk", *[model(images, merged=False).numpy()] * 2),
        np.einsum("ikd,jkd->ijk", rows, rows),
        atol=1e-4,
    )


def test_dimensions_beyond_the_features_stay_random(images):
    """Six images vary in five dimensions, so the last three of eight keep their directions, and are not dead."""
    model = tfdml.Single(backbone(), embedding_size=8)
    model(images[:1])
    before = model.head.projection.kernel.numpy()
    InitialEmbedding(images[:6], kind="pca_whitened").apply(model)
    kernel = model.head.projection.kernel.numpy()
    ratios = kernel[:, 5:] / before[:, 5:]
    np.testing.assert_allclose(ratios, ratios[:1].repeat(len(ratios), axis=0), rtol=1e-4)
    features = model.backbone(images[:6]).numpy().mean(axis=(1, 2))
    deviations = (features @ kernel).std(axis=0)
    np.testing.assert_allclose(deviations[5:], deviations[:5].min().repeat(3), rtol=1e-3)


@pytest.mark.nightly
def test_training_begins_with_it_and_goes_on_without(images):
    model = tfdml.Single(backbone(), embedding_size=5, freeze_batch_norm="statistics")
    model(images[:1])
    model.compile(keras.optimizers.SGD(0.0), loss="triplet")
    average, evaluation = WeightAverage(0.9), RetrievalEvaluation(images, LABELS)
    average.make(model)
    model.fit(images, LABELS, batch_size=30, verbose=0, callbacks=[InitialEmbedding(images), average, evaluation])
    begins = model.head.projection.kernel.numpy()
    other = tfdml.Single(model.backbone, embedding_size=5)
    np.testing.assert_allclose(cosines(begun(other, images, "pca_whitened")), cosines(model(images).numpy()), atol=1e-4)
    with average.applied():
        np.testing.assert_array_equal(model.head.projection.kernel, begins)
    model.head.projection.kernel.assign(begins * 2 + 1)
    model.fit(images, LABELS, batch_size=30, verbose=0, callbacks=[InitialEmbedding(images)])
    np.testing.assert_array_equal(model.head.projection.kernel, begins * 2 + 1)


def test_the_same_under_a_strategy(images):
    def embedded(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(1)
            return begun(tfdml.Single(backbone(), embedding_size=5), images, "pca_whitened")

    several = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    np.testing.assert_allclose(cosines(embedded(several)), cosines(embedded(tf.distribute.get_strategy())), atol=1e-4)


def test_what_does_not_fit_is_told(images):
    with pytest.raises(
        ValueError, match="kind to be one of 'pca', 'pca_whitened', 'lda', 'wccn', 'auto'. Received: kind='ica'"
    ):
        InitialEmbedding(images, kind="ica")
    with pytest.raises(ValueError, match="needs class labels. Pass the labels"):
        InitialEmbedding(images, kind="lda")
    with pytest.raises(ValueError, match="needs a model that has weights"):
        InitialEmbedding(images).apply(tfdml.Single(backbone(), embedding_size=5))
    features = tfdml.methods.Features(backbone())
    features(images[:1])
    with pytest.raises(ValueError, match="linear layers behind pooled features.*features.*has none"):
        InitialEmbedding(images).apply(features)
    single = tfdml.Single(backbone(), embedding_size=5)
    single(images[:1])
    with pytest.raises(ValueError, match="have the same features"):
        InitialEmbedding(np.zeros_like(images)).apply(single)


@pytest.mark.nightly
def test_a_run_tells_what_it_won(tmp_path):
    """A run that changes no weight has the principal components all the time, and its result says what these win."""
    flags = [
        "--backbone=small(width=16)",
        "--initial_weights=toycars",
        "--initial_embedding=auto",
        "--lr_multipliers=*=0",
        "--evaluate_on=validation",
        "--epochs=1",
        "--steps_per_epoch=2",
    ]
    done = run("tfdml.train", *train_flags(tmp_path / "run", *flags))
    found = result(tmp_path / "run")
    chosen = found["initial_embedding"]
    assert chosen["recall_at_1"][chosen["kind"]] == max(chosen["recall_at_1"].values())
    assert f"--initial_embedding={chosen['kind']} has the best Recall@1 on held-out" in done.stdout, done.stderr
    assert found["features"].keys() == found["untrained"].keys() == found["metrics"].keys()
    assert found["untrained"] == found["metrics"] == {name: found["best"][name] for name in found["metrics"]}
    difference = found["best"]["recall_at_1"] - found["features"]["recall_at_1"]
    assert found["gain"]["difference"] == pytest.approx(difference)
    assert gain_in_words(found, RunDirectory(tmp_path / "run").settings()) in done.stdout
    assert done.stdout.count("\npretrained features ") == 2 and "features" in found["validation"]


def test_learners_without_a_direction_stay_random(images):
    """The features vary in fewer directions than there are learners."""
    model = tfdml.MultiHead(tfdml.backbones.Small(width=1, stages=3), embedding_size=16, learners=8)
    model(images)
    InitialEmbedding(images, kind="pca").apply(model)
    assert np.all(np.isfinite(model.predict(images, verbose=0)))
