"""Methods that divide a network, on Keras models without endpoints of their own."""

import keras
import numpy as np
import pytest
from keras import layers

import tfdml
from tests.night import others_at_night
from tfdml.backbones import Backbone, GoogLeNet, Small
from tfdml.losses import Contrastive

IMAGES = np.random.default_rng(0).normal(size=(4, 32, 32, 3)).astype(np.float32)
LABELS = np.array([0, 0, 1, 1])
METHODS = {
    tfdml.Multilevel: {"embedding_size": 12, "reduced": 4, "hidden": 8},
    tfdml.MultiHead: {"embedding_size": 8, "learners": 2, "attention": True},
    tfdml.MultiTail: {"embedding_size": 8, "learners": 2},
    tfdml.AttentionEnsemble: {"embedding_size": 8, "learners": 2},
}


# Of both that copy what is behind the branch, one by day; attention is before it.
METHODS_BY_DAY = others_at_night(METHODS, lambda method: method is not tfdml.MultiHead)


def of_layers():
    """Five convolutions, each of which halves the features' sides."""
    more = {"strides": 2, "padding": "same", "activation": "relu"}
    return [layers.Conv2D(4, 3, name=f"c{number}", **more) for number in range(1, 6)]


def functional(pooled=False):
    features = images = keras.Input((32, 32, 3))
    for layer in of_layers():
        features = layer(features)
    return keras.Model(images, layers.GlobalAveragePooling2D()(features) if pooled else features)


def sequential():
    return keras.Sequential([keras.Input((32, 32, 3)), *of_layers()])


@pytest.mark.slow
@pytest.mark.parametrize("make", [functional, sequential])
@pytest.mark.parametrize("method", METHODS_BY_DAY)
@pytest.mark.few_by_day(1)
def test_it_trains_and_comes_back_from_a_file(method, make, tmp_path):
    model = method(make(), **METHODS[method])
    model(IMAGES)
    model.compile(keras.optimizers.SGD(0.1), loss=Contrastive(), run_eagerly=True)
    model.fit(IMAGES, LABELS, batch_size=4, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IMAGES), model(IMAGES))
    # What they chose; the model's own configuration is Keras'.
    chosen, expected = ({**made.get_config(), "backbone": None} for made in (again, model))
    assert chosen == expected


@pytest.mark.parametrize("make", [functional, sequential])
def test_ensembles_divide_it_at_stage_4_and_levels_are_the_last_three(make):
    heads = tfdml.MultiHead(make(), 8, learners=2)
    assert heads.branch == "stage4" and [layer.name for layer in heads.seconds[0].layers[1:]] == ["c5"]
    levels = tfdml.Multilevel(make(), 12, reduced=4, hidden=8)
    assert levels.endpoints == ("stage3", "stage4", "stage5") and levels.auxiliary == ("stage3", "stage4")
    assert [features.shape[1] for features in levels.levels.outputs] == [4, 2, 1]


def test_stages_have_names_that_can_be_chosen():
    heads = tfdml.MultiHead(functional(), 8, learners=2, branch="stage2")
    assert [layer.name for layer in heads.seconds[0].layers[1:]] == ["c3", "c4", "c5"]
    masked = tfdml.AttentionEnsemble(functional(), 8, learners=2, branch="stage2", attention_depth=2)
    assert [layer.name for layer in masked.attention.layers[1:]] == ["attention_c3", "attention_c4"]
    assert tfdml.Multilevel(functional(), 8, endpoints=("stage1", "output")).auxiliary == ("stage1",)
    with pytest.raises(ValueError, match="has no endpoint 'stage6'. Use one of: stage1, .*stage5, output"):
        tfdml.MultiHead(functional(), 8, learners=2, branch="stage6")


def test_an_output_without_positions_stands_for_the_last_stage():
    model = functional(pooled=True)
    levels = tfdml.Multilevel(model, 12, reduced=4, hidden=8)
    assert levels.endpoints == ("stage3", "stage4", "output") and levels.auxiliary == ("stage3", "stage4")
    assert levels(IMAGES).shape == (4, 12)
    heads = tfdml.MultiHead(model, 8, learners=2)
    assert heads.branch == "stage4" and heads(IMAGES).shape == (4, 8)


def test_a_branch_has_something_to_learn_behind_it():
    images = keras.Input((32, 32, 3))
    features = layers.Conv2D(4, 3, strides=2, name="c1")(images)
    features = layers.Conv2D(4, 3, strides=2, name="c2")(features)
    assert tfdml.MultiHead(keras.Model(images, layers.MaxPooling2D()(features)), 8, learners=2).branch == "stage1"
    pooled = keras.Model(images, layers.MaxPooling2D()(layers.MaxPooling2D()(images)), name="pooled")
    with pytest.raises(ValueError, match="pooled has no stage .* weights after it. Its stages are: stage1, stage2. S"):
        tfdml.MultiHead(pooled, 8, learners=2)


def test_declared_endpoints_stay_the_default():
    """Stages beside them can be named, but where a network declares such names, which are its own."""
    images = keras.Input((32, 32, 3))
    first = layers.Conv2D(4, 3, strides=2)(images)
    second = layers.Conv2D(4, 3, strides=2)(first)
    third = layers.Conv2D(4, 3, strides=2)(second)
    about = {"mean": (0,) * 3, "std": (1,) * 3, "image_size": 32}
    backbone = Backbone(images, {"first": first, "second": second, "output": third}, **about)
    assert backbone.method_default("branch") == "second"
    assert backbone.method_default("levels") == ("first", "second", "output")
    heads = tfdml.MultiHead(backbone, 8, learners=2, branch="stage1")
    assert heads.branch == "stage1" and heads.firsts[0].output is first
    assert list(Small(width=4).stage_endpoints) == [] and Small(width=4).stages == 4


@pytest.mark.slow
def test_the_papers_networks_have_stages_beside_their_endpoints():
    googlenet = GoogLeNet()
    stages = googlenet.stage_endpoints
    assert list(stages) == ["stage1", "stage2", "stage3", "stage4", "stage5"]
    names = {"stage3": "inception_3b", "stage4": "inception_4e", "stage5": "inception_5b"}
    assert all(stages[stage] is googlenet.endpoints[name] for stage, name in names.items())
    assert googlenet.method_default("branch") == "pool3"
