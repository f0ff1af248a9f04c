"""`compile` and `fit` refuse what they cannot do before the first step."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.models import small_model
from tfdml.losses import Triplet


def ensemble():
    return tfdml.MultiHead(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, learners=2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"loss": "triplet(margn=1)"}, "Did you mean 'margin'"),
        ({"loss": lambda labels, embeddings: 0.0}, "loss must be a keras.losses.Loss"),
        ({"loss": Triplet(reduction="sum")}, "averages the loss over anchors"),
        ({"loss": "triplet", "metrics": ["recall_at_1"]}, r"metrics=.*tfdml.callbacks.RetrievalEvaluation\("),
        ({"loss": "triplet", "loss_weights": [1.0]}, "loss_weights"),
    ],
)
def test_compile_refuses_what_it_cannot_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        small_model().compile("adam", **arguments)


def test_missing_labels_are_named(batch):
    model = small_model()
    model.compile("adam", loss="triplet")
    with pytest.raises(ValueError, match="Training needs labels"):
        model.fit(tf.data.Dataset.from_tensors(batch[0]), verbose=0)


class OwnMean(keras.losses.Loss):
    def call(self, labels, embeddings):
        return tf.reduce_mean(embeddings)


class OwnSquares(keras.losses.Loss):
    def call(self, labels, embeddings):
        return embeddings**2


@pytest.mark.parametrize("make", [small_model, ensemble], ids=["single", "ensemble"])
@pytest.mark.parametrize("loss, shape", [(OwnMean(), r"\(\)"), (OwnSquares(), r"\((None|16), \d+\)")])
def test_a_loss_with_other_values_than_those_of_anchors_is_named(batch, make, loss, shape):
    model = make()
    model.compile("sgd", loss=loss)
    with pytest.raises(ValueError, match=f"one value per anchor. .* Received: shape {shape}"):
        model.fit(*batch, batch_size=16, verbose=0)


@pytest.mark.parametrize("use", ["fit", "evaluate"])
def test_a_missing_loss_is_named(batch, use):
    model = small_model()
    model.compile("adam")
    with pytest.raises(ValueError, match="compiled without a loss. Expected compile"):
        getattr(model, use)(*batch, batch_size=16, verbose=0)


def test_a_missing_optimizer_and_unknown_dimensions_are_named(batch):
    model = small_model()
    model.compile(None, loss="triplet")
    with pytest.raises(ValueError, match="compiled without an optimizer. Expected compile"):
        model.fit(*batch, batch_size=16, verbose=0)
    model.compile("sgd", loss="triplet")
    unknown = tf.data.Dataset.from_tensors(batch).map(
        lambda *of: tf.py_function(lambda *each: each, of, ("float32", "int64"))
    )
    with pytest.raises(ValueError, match="does not specify how many dimensions its images have"):
        model.fit(unknown, verbose=0)


def test_labels_with_a_second_axis_are_checked(batch):
    model = small_model()
    model.compile("sgd", loss="proxy_nca(classes=3)")
    with pytest.raises(ValueError, match="labels must be from 0 to 2. Received: 3 at position 12"):
        model.fit(batch[0], batch[1][:, None], batch_size=16, verbose=0)


@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda labels: np.eye(4)[labels], r"Received: shape \(.*, 4\).*one-hot.*argmax"),
        (lambda labels: np.array(list("abcd"))[labels], "Received: text.*np.unique"),
    ],
)
def test_labels_that_are_no_class_numbers_are_named(batch, make, message, as_dataset):
    images, labels = batch[0], make(batch[1])
    model = small_model()
    model.compile("sgd", loss="triplet")
    with pytest.raises(ValueError, match=message):
        if as_dataset:
            model.fit(tf.data.Dataset.from_tensor_slices((images, labels)).batch(16), verbose=0)
        else:
            model.fit(images, labels, batch_size=16, verbose=0)


@pytest.mark.parametrize(
    "loss, labels, message",
    [
        ("triplet", np.full(16, 5), "All 16 labels are 5, but pair-based losses need images of at least two classes"),
        ("triplet", np.arange(16)[:, None], "All 16 labels are different.*several images per class"),
        ("proxy_nca(classes=16)", np.where(np.arange(16) == 9, np.nan, 1), "Received: NaN at position 9 of 16"),
    ],
)
def test_labels_of_which_nothing_can_be_learned_are_refused(batch, loss, labels, message):
    model = small_model()
    model.compile("sgd", loss=loss)
    with pytest.raises(ValueError, match=message):
        model.fit(batch[0], labels, batch_size=16, verbose=0)


def test_labels_that_are_all_different_have_pairs_among_proxies_and_past_batches(batch):
    for compiled in ({"loss": "proxy_nca(classes=16)"}, {"loss": "triplet", "memory": "xbm(size=64)"}):
        model = small_model()
        model.compile("sgd", **compiled, run_eagerly=True)
        assert np.isfinite(model.fit(batch[0], np.arange(16), batch_size=16, verbose=0).history["loss"])


def test_a_label_of_nan_in_a_dataset_is_named(batch):
    model = small_model()
    model.compile("sgd", loss="triplet")
    labels = np.where(np.arange(16) == 9, np.nan, batch[1])
    with pytest.raises(ValueError, match="^labels must be a class label for each image. Received: NaN.$"):
        model.fit(tf.data.Dataset.from_tensors((batch[0], labels)), verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [small_model, ensemble], ids=["single", "ensemble"])
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("use", ["fit", "predict", "call"])
@pytest.mark.few_by_day(4)
def test_images_without_four_axes_are_told_in_one_sentence(batch, make, built, use):
    model = make()
    model.compile("sgd", loss="triplet")
    if built:
        model.build((None, 12, 12, 3))
    gray = batch[0][..., 0]
    uses = {
        "fit": lambda: model.fit(gray, batch[1], batch_size=16, verbose=0),
        "predict": lambda: model.predict(gray, batch_size=16, verbose=0),
        "call": lambda: model(gray),
    }
    with pytest.raises(
        ValueError, match="Expected images of shape .batch, height, width, 3.. Received: images of"
    ) as told:
        uses[use]()
    assert "(16, 12, 12)" in str(told.value) and "\x1b" not in str(told.value) and "\n" not in str(told.value)
    with pytest.raises(ValueError, match=r"For a single image, pass image\[None\]"):
        model(batch[0][0])


def test_compiling_again_without_a_loss_is_told():
    model = small_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile("adam")
        model.compile("adam", loss="proxy_nca(classes=3)")
        model.build((None, 12, 12, 3))
    with pytest.warns(
        UserWarning, match="compiled again without a loss.*variables of the previous loss are lost"
    ) as told:
        model.compile("sgd")
    assert told[0].filename == __file__


@pytest.mark.parametrize("loss", [keras.losses.SparseCategoricalCrossentropy(), keras.losses.MeanSquaredError()])
def test_a_loss_on_predictions_is_told(loss):
    with pytest.warns(UserWarning, match=rf"{type(loss).__name__} compares.*embeddings.*NormSoftmax\(classes="):
        small_model().compile("sgd", loss=loss)


def test_losses_on_embeddings_give_no_alarm():
    for loss in (keras.losses.Circle(), OwnSquares(), Triplet()):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            small_model().compile("sgd", loss=loss)
