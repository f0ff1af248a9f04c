"""A loss that names its function, as it was documented before, works and warns."""

import keras
import numpy as np
import pytest
from keras import ops

from tfdml import registry
from tfdml.losses import EmbeddingLoss
from tfdml.registry import NotNegative
from tfdml.registry.fields import declared

LABELS, EMBEDDINGS = np.array([0, 0, 1, 1]), np.array([[2.0], [1.0], [0.5], [3.0]], np.float32)


@declared
def length_loss(labels, embeddings, queries=None, *, margin: NotNegative = 0.5, power=1):
    """The length of an embedding beyond a margin."""
    del labels
    return ops.maximum(ops.norm(embeddings[:queries], axis=1) - margin, 0.0) ** power


def all_lengths(labels, embeddings, *, margin=0.5):
    """The sum of all lengths."""
    del labels
    return ops.sum(ops.norm(embeddings, axis=1)) - margin + ops.zeros(len(embeddings))


@pytest.fixture(scope="module")
def length():
    with pytest.warns(DeprecationWarning, match="^Length names its function. State its arguments as fields"):

        @registry.register("loss", "length_of_old")
        class Length(EmbeddingLoss):
            """Keeps embeddings short."""

            function = staticmethod(length_loss)
            shift: float = 0.0

    yield Length
    registry.parts._registered["loss"].pop("length_of_old")


def test_arguments_are_those_of_the_function(length):
    loss = length(margin=1, power=2)
    assert loss.call(LABELS, EMBEDDINGS).numpy().tolist() == [1, 0, 0, 4]
    assert loss.call(LABELS, EMBEDDINGS, queries=1).numpy().tolist() == [1]
    assert (loss.margin, loss.power, loss.shift) == (1.0, 2, 0.0) and length().margin == 0.5
    assert registry.create("loss", "length_of_old(margin=2)").margin == 2


def test_they_are_checked(length):
    with pytest.raises(ValueError, match="expects margin to be a number of 0 or more; received -1"):
        length(margin=-1)
    with pytest.raises(TypeError, match="no argument 'marginn'"):
        length(marginn=1)


def test_it_is_saved(length):
    loss = length(margin=1.5, name="own")
    read = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert type(read) is length and read.get_config() == loss.get_config()


def test_a_function_without_queries_refuses_a_memory():
    with pytest.warns(DeprecationWarning):

        class All(EmbeddingLoss):
            function = staticmethod(all_lengths)

    assert All().refuses_memory and All().call(LABELS, EMBEDDINGS).numpy().tolist() == [6.0] * 4


def test_its_hooks_go_on_working():
    with pytest.warns(DeprecationWarning):

        class Twice(EmbeddingLoss):
            function = staticmethod(length_loss)
            first_arguments = ("classes",)
            classes: int | None = None

            def function_arguments(self):
                return {"margin": 2 * self.margin}

    assert (Twice(4).classes, Twice(4).margin) == (4, 0.5)
    assert Twice(margin=0.5).call(LABELS, EMBEDDINGS).numpy().tolist() == [1, 0, 0, 2]
