"""The fields of a loss are its arguments: defaults, checks, configuration, signature."""

import inspect
import json
import warnings
from dataclasses import KW_ONLY
from typing import Annotated, Literal

import keras
import numpy as np
import pytest
from keras import ops

from tfdml import losses, registry
from tfdml.losses import EmbeddingLoss, ProxyLoss
from tfdml.registry.arguments import Count, NotNegative, integer


@keras.saving.register_keras_serializable(package="test_embedding_loss")
class Distances(EmbeddingLoss):
    """Pulls to the origin."""

    margin: NotNegative = 0.5
    power: int = 2
    _: KW_ONLY
    rows: int = 3

    def call(self, labels, embeddings):
        costs = ops.maximum(ops.sum(ops.square(embeddings), axis=1) - self.margin, 0.0) ** self.power
        return costs * ops.cast(ops.arange(len(labels)) < self.rows, "float32")


EMBEDDINGS = np.array([[2.0], [1.0], [0.5], [3.0]], np.float32)
LABELS = np.arange(4)


def values(loss):
    return loss.call(LABELS, EMBEDDINGS).numpy().tolist()


def test_fields_are_arguments_and_attributes():
    assert str(inspect.signature(Distances)) == "(margin=0.5, power=2, rows=3, **kwargs)"
    assert values(Distances()) == [3.5**2, 0.5**2, 0, 0]
    assert values(Distances(1.0)) == values(Distances(margin=1)) == [9, 0, 0, 0]
    assert values(Distances(1.0, 1, 4)) == values(Distances(rows=4, power=1, margin=1.0)) == [3, 0, 0, 8]
    loss = Distances(reduction="sum", name="own", dtype="float64")
    assert (loss.margin, loss.power, loss.rows, loss.reduction, loss.name) == (0.5, 2, 3, "sum", "own")
    loss.margin, loss.rows = 1.0, 4
    assert values(loss) == [9, 0, 0, 64]


def test_the_configuration_survives_json():
    loss = Distances(0.25, rows=2, reduction=None, name="own")
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
    own = {"margin": 0.25, "power": 2, "rows": 2}
    assert written["config"] == {**own, "reduction": None, "name": "own", "dtype": "float32"}
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is Distances and read.get_config() == loss.get_config() and values(read) == values(loss)


def test_a_default_is_no_attribute_of_the_class():
    assert not hasattr(Distances, "margin") and isinstance(EmbeddingLoss.dtype, property)
    assert Distances().dtype == "float32"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Distances(marign=1), "Distances has no argument 'marign'. Did you mean 'margin'? Its arguments: "),
        (lambda: Distances(power=1, zzz=1), "'zzz'. Its arguments: margin, power, rows, reduction, name, dtype."),
        (lambda: Distances(1, 1, 1, 1), "Distances: too many positional arguments. Its arguments: margin, power, "),
        (lambda: Distances(1, margin=1), "Distances: multiple values for argument 'margin'. Its arguments: margin, "),
        (lambda: losses.Triplet(minning="all"), "Triplet has no argument 'minning'. Did you mean 'mining'?"),
    ],
)
def test_wrong_arguments_are_told_with_the_right_ones(make, message):
    with pytest.raises(TypeError) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("triplet(mining='hard', cutoff=0.3)", "Triplet: cutoff=0.3 has no effect with mining='hard'."),
        (
            "triplet(nonzero_loss_cutoff=None)",
            "Triplet: nonzero_loss_cutoff=None has no effect with mining='semi_hard'.",
        ),
        ("margin(mining='all', cutoff=0.3)", "Margin: cutoff=0.3 has no effect with mining='all'."),
        ("margin(mining='nearest', nonzero_loss_cutoff=1.0)", "nonzero_loss_cutoff=1.0 has no effect with mining='n"),
        ("margin(nu=0.1)", "Margin: nu=0.1 has no effect with learn_beta='no'."),
    ],
)
def test_arguments_without_effect_are_warned_of(spec, message):
    with pytest.warns(UserWarning) as warned:
        registry.create("loss", spec)
    assert len(warned) == 1 and message in str(warned[0].message)


@pytest.mark.parametrize(
    "spec",
    [
        "triplet(mining='distance_weighted', cutoff=0.3, nonzero_loss_cutoff=None)",
        "margin(cutoff=0.3, nonzero_loss_cutoff=None)",
        "margin(mining='nearest', cutoff=0.3)",
        "margin(learn_beta='one', nu=0.1, mining='all')",
    ],
)
def test_arguments_with_effect_are_not(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry.create("loss", spec)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="expects margin to be a number of 0 or more. Received: margin=-1"):
        Distances(margin=-1)
    with pytest.raises(ValueError, match="Distances expects power to be an integer. Received: power='a'"):
        Distances(power="a")
    with pytest.raises(ValueError, match="The loss 'cos_face' expects classes to be None or an integer of 1 or more"):
        losses.CosFace(classes=0)
    assert type(Distances(margin=np.float64(1)).margin) is float


def test_arguments_of_base_classes_come_first_but_those_that_are_keyword_only():
    class Parent(ProxyLoss):
        _: KW_ONLY
        heads: Count = 2

    class Child(Parent):
        margin: float = 0.5
        kind: Literal["a", "b"] | None = None
        _: KW_ONLY
        tails: float = 0.5

    class Grandchild(Child):
        more: Annotated[int, integer(0)] = 0
        _: KW_ONLY
        tails: float = 1.5

    assert str(inspect.signature(Parent)) == "(heads=2, classes=None, **kwargs)"
    assert str(inspect.signature(Child)) == "(margin=0.5, kind=None, tails=0.5, heads=2, classes=None, **kwargs)"
    expected = "(margin=0.5, kind=None, more=0, tails=1.5, heads=2, classes=None, **kwargs)"
    assert str(inspect.signature(Grandchild)) == expected
    assert Grandchild(classes=4, heads=3).make_layer().classes == 4
    for wrong in ({"heads": 0}, {"classes": 0}, {"margin": "0"}, {"kind": "c"}, {"more": -1}):
        with pytest.raises(ValueError, match="Grandchild expects"):
            Grandchild(**wrong)


def test_a_class_with_an_init_of_its_own_keeps_it():
    class Twice(losses.Triplet):
        def __init__(self, twice=0.1, **kwargs):
            super().__init__(margin=2 * twice, **kwargs)

    assert str(inspect.signature(Twice)) == "(twice=0.1, **kwargs)"
    assert Twice(0.3, mining="all").get_config().items() >= {"margin": 0.6, "mining": "all"}.items()

    class Plain(EmbeddingLoss):
        def __init__(self, margin=1.0, **kwargs):
            super().__init__(**kwargs)
            self.margin = margin

        def call(self, labels, embeddings):
            return Distances(self.margin, power=1).call(labels, embeddings)

        def get_config(self):
            return {**super().get_config(), "margin": self.margin}

    assert str(inspect.signature(Plain)) == "(margin=1.0, **kwargs)"
    assert values(Plain()) == [3, 0, 0, 0] and Plain(2).get_config()["margin"] == 2

    class Heir(Plain):
        pass

    assert str(inspect.signature(Heir)) == "(margin=1.0, **kwargs)" and values(Heir(2)) == [2, 0, 0, 0]


def test_a_field_without_a_default_is_needed():
    with pytest.raises(TypeError, match="Nested: missing a required argument: 'dims'. Its arguments: loss, dims, red"):
        losses.Nested("triplet")


def test_a_loss_without_a_call_is_told():
    with pytest.raises(NotImplementedError, match="EmbeddingLoss must implement call"):
        EmbeddingLoss()(LABELS, EMBEDDINGS)


@pytest.mark.parametrize(
    "labels, missing", [([3] * 4, "equal, so Triplet has no negative"), (range(4), "different, .*positive")]
)
def test_a_batch_without_pairs_is_told(labels, missing):
    with pytest.warns(UserWarning, match=f"All labels of the batch are {missing}") as told:
        losses.Triplet()(np.array(labels), EMBEDDINGS)
    assert told[0].filename == __file__


def test_a_batch_with_pairs_or_of_a_loss_without_them_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.Triplet()([0, 0, 1, 2], EMBEDDINGS)
        losses.ProxyNCA(classes=5)([0, 1, 2, 3], np.ones((4, 5), np.float32))
        losses.addons.ContrastiveLoss()([1, 1, 1, 1], EMBEDDINGS)


class SetsItsOwn(EmbeddingLoss):
    """Takes an argument in an `__init__` of its own, and sets it before or after Keras' arguments."""

    margin: float
    checked = None

    def __init__(self, margin, first, **kwargs):
        if first:
            self.margin = margin
        super().__init__(**kwargs)
        if not first:
            self.margin = margin

    def check_arguments(self):
        self.checked = self.margin


@pytest.mark.parametrize("first", [True, False])
def test_an_init_of_its_own_sets_the_arguments(first):
    loss = SetsItsOwn(0.7, first, name="own")
    assert (loss.margin, loss.name, loss.checked) == (0.7, "own", None) and loss.get_config()["margin"] == 0.7


def test_a_loss_takes_past_batches_if_its_call_does():
    """Whatever the class that it derives from takes."""

    class WithGallery(EmbeddingLoss):
        def call(self, labels, embeddings, queries=None):
            return ops.sum(embeddings, axis=1)[:queries]

    class WithoutGallery(losses.Triplet):
        def call(self, labels, embeddings):
            return super().call(labels, embeddings)

    class Renamed(losses.Triplet):
        pass

    assert WithGallery().refuses_memory is None and Renamed().refuses_memory is None
    assert WithoutGallery().refuses_memory == Distances().refuses_memory is not None
