"""What training adds to the pretrained features: the gain, blends of weights, and baselines."""

import types
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from tests.run_helpers import parsed, pictures
from tfdml.console.settings import Settings
from tfdml.evaluation.scores import Scores
from tfdml.run.experiment.splits import Splits
from tfdml.run.training import gain
from tfdml.run.training.gain import SHARES, Blend, between, gain_in_words, gain_of

LABELS = np.repeat(np.arange(10), 4)


def scores(share, name="recall_at_1"):
    """Scores of which the same share is right in each class."""
    values = (np.arange(40) % 4 < 4 * share).astype(float)
    return Scores({name: share}, np.arange(40), {name: values}, 40)


def result(before, after, step=10):
    return {"gain": gain_of(scores(before), scores(after), LABELS, "recall_at_1"), "best": {"step": step}}


def test_a_gain_in_every_class_is_certain():
    found = result(0.25, 0.75)
    assert found["gain"] == {
        "metric": "recall_at_1",
        "features": 0.25,
        "best": 0.75,
        "difference": 0.5,
        "interval": [0.5, 0.5],
    }
    assert gain_in_words(found, Settings()) == (
        "Training improved Recall@1 on the test set from 25.0% (pretrained features) to 75.0%: +50.0 points (95% CI "
        "+50.0 to +50.0)."
    )


@pytest.mark.parametrize(
    "after, step, told",
    [
        (
            0.5,
            10,
            "Training did not clearly improve Recall@1 on the test set: it changed from 50.0% (pretrained features)",
        ),
        (0.25, 10, "Training lowered Recall@1 on the test set from 50.0% (pretrained features) to 25.0%: -25.0 points"),
        (0.5, 0, "Training did not improve the model: the best model is the initial embedding, before training."),
        (0.75, 0, "Its Recall@1 on the test set is 75.0%, compared with 50.0% (pretrained features): +25.0 points"),
    ],
)
def test_if_training_gained_nothing_there_is_advice(after, step, told):
    settings = Settings().replace(optimizer="adam", initial_weights="toycars")
    verdict, tried, export = gain_in_words(result(0.5, after, step), settings).splitlines()
    assert told in verdict and "(95% CI " in verdict
    assert all(flag in tried for flag in ("--blend", "--method=", "--optimizer="))
    assert export.endswith("python -m tfdml.export --backbone=small --initial_weights=toycars --out=pretrained")


def test_the_export_has_all_flags_that_prepare_images():
    given = {"initial_weights": "toycars", "image_size": (256, 128), "test_transform": "warp", "shrink_decoding": True}
    export = gain_in_words(result(0.5, 0.25), Settings().replace(**given)).splitlines()[-1]
    flags = "--backbone=small --image_size=256x128 --test_transform=warp --shrink_decoding --initial_weights=toycars"
    assert export.endswith(f"python -m tfdml.export {flags} --out=pretrained")


def test_a_gain_of_a_model_that_the_test_selected_is_called_optimistic():
    found = result(0.25, 0.75)
    found["best"]["selected_on"] = "test"
    assert gain_in_words(found, Settings()).endswith(f"\n{gain.OPTIMISTIC}")
    found["best"]["selected_on"] = "validation"
    assert gain.OPTIMISTIC not in gain_in_words(found, Settings())


def test_a_metric_of_queries_stands_in_for_one_that_is_none():
    assert gain_of(scores(0.5), scores(0.5), LABELS, "nmi")["metric"] == "recall_at_1"


def test_nothing_to_tell():
    assert gain_of(scores(0.5), scores(0.5), LABELS * 0, "recall_at_1") is None
    nothing = Scores({"nmi": 0.5})
    assert gain_of(nothing, nothing, LABELS, "nmi") is None
    assert gain_in_words({"gain": None}, Settings()) == gain_in_words({}, Settings()) == ""


def test_what_was_tried_is_not_advised():
    given = {"blend": True, "method": "multilevel(auxiliary=())", "image_size": 224, "lr_multipliers": ["backbone=0.1"]}
    tried = Settings().replace(**given)
    for optimizer in ("adam", "sgd(learning_rate=0.01)"):
        sentences = gain_in_words(result(0.5, 0.5), tried.replace(optimizer=optimizer))
        assert sentences.endswith('try a lower learning rate (--optimizer="adam(learning_rate=0.0001)").')
    # Of a pretrained network `auto` takes that rate.
    for optimizer in ("auto", "adam(learning_rate=1e-4)", "adamw(learning_rate=0.00001)"):
        assert gain_in_words(result(0.5, 0.5), tried.replace(optimizer=optimizer)).endswith(
            "check the labels (tfdml.suspects)."
        )


OF_SIX_CLASSES = np.arange(6).repeat(10)


class Experiment:
    """Tells for each share how many of ten queries of each class a model gets right."""

    def __init__(self, right):
        self.right = right
        protocol = types.SimpleNamespace(while_training=None)
        self.splits = types.SimpleNamespace(evaluation=types.SimpleNamespace(labels=OF_SIX_CLASSES), protocol=protocol)

    def embed(self, model, split):
        return float(model.get_weights()[0][0, 0])

    def scores(self, share, split, metrics):
        found = (np.arange(10) < np.array(self.right[share])[:, None]).ravel().astype(float)
        # Not a mean over queries.
        values = {"recall_at_1": found.mean(), "nmi": 1 - share}
        return Scores(values, np.arange(60), {"recall_at_1": found}, 60)


@pytest.fixture
def model():
    """Its final weights are 1, its first ones 0."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.set_weights([np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    return model


FIRST = [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]


def best(model, right, monitor="recall_at_1"):
    return Blend.best(Experiment(dict(zip(SHARES, right, strict=True))), model, FIRST, monitor)


@pytest.mark.parametrize(
    "right, share",
    [
        ([[9] * 6, [5] * 6, [4] * 6], 0.25),
        ([[5] * 6, [9] * 6, [5] * 6], 0.5),
        # Lower by the same in each class, so there is no doubt.
        ([[8] * 6, [9] * 6, [8] * 6], 0.5),
        # Lower in one class alone, and higher in another.
        ([[5] * 6, [9, 6, 5, 5, 5, 5], [8, 7, 5, 5, 4, 5]], 0.75),
        ([[7] * 6] * 3, 0.75),
    ],
    ids=["first", "middle", "surely worse", "in doubt", "equal"],
)
def test_the_largest_share_that_is_hardly_worse(model, right, share):
    found = best(model, right)
    assert found.share == share
    assert found.metrics["recall_at_1"] == pytest.approx(np.mean(right[SHARES.index(share)]) / 10)
    np.testing.assert_array_equal(model.get_weights()[0], 1.0)


def test_a_metric_of_no_queries_is_taken_as_it_is(model):
    assert best(model, [[7] * 6] * 3, monitor="nmi").share == 0.25


def test_floats_are_between_and_other_numbers_are_final():
    first = [np.float32([0, 2]), np.array([1, 2], np.uint32), np.float16([0])]
    final = [np.float32([4, 4]), np.array([3, 5], np.uint32), np.float16([1])]
    found = between(first, final, 0.25)
    np.testing.assert_array_equal(found[0], np.float32([1, 2.5]))
    np.testing.assert_array_equal(found[1], final[1])
    assert [each.dtype for each in found] == [each.dtype for each in final]


CARS = "--dataset=toycars(classes=16, images_per_class=8, image_size=24)"


def experiment_of(*flags):
    """An experiment whose features are random, and a list of whether images that cannot be read were tolerated."""
    settings, _ = parsed(CARS, f"--data_dir={pictures()}", "--sampler=pxk(classes=4, per_class=4)", *flags)
    splits, tolerated = Splits.of(settings.data, settings.evaluation, settings.run.seed), []

    def embed(model, split, tolerant=False):
        tolerated.append(tolerant)
        return np.random.default_rng(0).normal(size=(len(split), 20)).astype("float32")

    def measure(embeddings, split):
        return {"dims": embeddings.shape[1]}

    return SimpleNamespace(settings=settings, splits=splits, embed=embed, measure=measure), tolerated


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["--loss=ranked_list(final_negative_temperature=5.0)"],
        ["--loss=contextual_manifold(proxies='hard')"],
        ["--loss=triplet", "--levels=body,class"],
    ],
    ids=["a loss that changes", "proxies of images", "levels"],
)
@pytest.mark.few_by_day(1)
def test_a_linear_layer_is_trained_with_any_loss(monkeypatch, flags):
    monkeypatch.setattr(gain, "STEPS", 2)
    experiment, tolerated = experiment_of("--baselines=linear", "--embedding_size=16", *flags)
    gain.check_baselines(experiment)
    found = gain.baselines_of(experiment, None, np.zeros((3, 20), np.float32))
    assert found == {"baselines": {"linear": {"dims": 16}}}
    assert tolerated == [True]


def test_baselines_of_classes_are_refused_before_training_where_there_are_none():
    experiment, _ = experiment_of("--baselines=pca,lda,linear", "--labels=images")
    with pytest.raises(
        ValueError, match="--baselines=lda,linear need classes with several images, but no class has two"
    ):
        gain.check_baselines(experiment)
    gain.check_baselines(experiment_of("--baselines=pca", "--labels=images")[0])
