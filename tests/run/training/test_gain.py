"""The gain of training over the pretrained features, and how it is told."""

import numpy as np
import pytest

from tfdml.console.settings import Settings
from tfdml.evaluation.scores import Scores
from tfdml.run.training.gain import gain_of, told

LABELS = np.repeat(np.arange(10), 4)


def scores(share, name="recall_at_1"):
    """Scores of which the same share is right in each class."""
    values = (np.arange(40) % 4 < 4 * share).astype(float)
    return Scores({name: share}, np.arange(40), {name: values}, 40)


def result(before, after, step=10):
    return {"gain": gain_of(scores(before), scores(after), LABELS, "recall_at_1"), "best": {"step": step}}


def test_what_is_won_in_every_class_is_certain():
    found = result(0.25, 0.75)
    assert found["gain"] == {
        "metric": "recall_at_1",
        "features": 0.25,
        "best": 0.75,
        "difference": 0.5,
        "interval": [0.5, 0.5],
    }
    assert told(found, Settings()) == (
        "Training won 50.0 points of recall_at_1 over the pretrained features (95% interval 50.0 to 50.0)."
    )


def test_an_embedding_that_no_step_made_better_is_not_what_training_won():
    sentences = told(result(0.25, 0.75, step=0), Settings())
    assert sentences.startswith("The embedding before training wins 50.0 points of recall_at_1 over the pretrained")
    assert "No step made it better. Try a mean of the first and the final weights, --blend" in sentences


@pytest.mark.parametrize("after, step", [(0.5, 0), (0.5, 10), (0.25, 0)])
def test_what_is_not_certain_comes_with_advice(after, step):
    sentences = told(result(0.5, after, step), Settings().replace(optimizer="adam"))
    assert f"recall_at_1 is {100 * after - 50:+.1f} points beside" in sentences
    assert ("The best model is the untrained one." in sentences) == (step == 0)
    assert all(flag in sentences for flag in ("--blend", "--method=", "--optimizer="))


def test_a_metric_of_queries_stands_in_for_one_that_is_none():
    assert gain_of(scores(0.5), scores(0.5), LABELS, "nmi")["metric"] == "recall_at_1"


def test_nothing_to_tell():
    assert gain_of(scores(0.5), scores(0.5), LABELS * 0, "recall_at_1") is None
    nothing = Scores({"nmi": 0.5})
    assert gain_of(nothing, nothing, LABELS, "nmi") is None
    assert told({"gain": None}, Settings()) == told({}, Settings()) == ""


def test_what_was_tried_is_not_advised():
    given = {"blend": True, "method": "multilevel(auxiliary=())", "image_size": 224, "lr_multipliers": ["backbone=0.1"]}
    tried = Settings().replace(**given)
    for optimizer in ("adam", "sgd(learning_rate=0.01)"):
        sentences = told(result(0.5, 0.5), tried.replace(optimizer=optimizer))
        assert sentences.endswith('Try a lower learning rate, --optimizer="adam(learning_rate=0.0001)".')
    # Of a pretrained network `auto` takes that rate.
    for optimizer in ("auto", "adam(learning_rate=1e-4)", "adamw(learning_rate=0.00001)"):
        assert told(result(0.5, 0.5), tried.replace(optimizer=optimizer)).endswith("0.0).")


@pytest.mark.parametrize(
    "size, advised", [(128, True), ((160, 128), True), ((256, 128), False), (384, False), (0, False)]
)
def test_larger_images_are_advised_where_they_are_small(size, advised):
    tried = Settings().replace(blend=True, method="multilevel", lr_multipliers=["backbone=0.1"], image_size=size)
    assert ("Try larger images, --image_size=224." in told(result(0.5, 0.5), tried)) == advised


def test_what_is_lost_for_sure_is_told_as_that():
    assert told(result(0.75, 0.25), Settings()).startswith(
        "Training lost 50.0 points of recall_at_1 beside the pretrained features (95% interval -50.0 to -50.0). Try "
    )
