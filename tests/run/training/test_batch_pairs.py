import re

import keras
import numpy as np
import pytest

from pipelines.sampling import PseudoClasses, PxK, Triplets
from tfdml import registry
from tfdml.console.settings import BatchSettings
from tfdml.run.training.run_sampler import check_pairs

EIGHT_OF_EACH = np.repeat(np.arange(400), 8)


def check(sampler, loss="triplet", labels=EIGHT_OF_EACH):
    made = registry.create("sampler", sampler)
    made.bind(labels)
    check_pairs(
        registry.create("loss", loss, classes=400), made, labels, BatchSettings(sampler=sampler, loss=loss), seed=0
    )


@pytest.mark.parametrize("loss", ["triplet", "margin(learn_beta='one')", "proxy_nca + triplet"])
@pytest.mark.parametrize("labels", [np.arange(50), EIGHT_OF_EACH])
def test_no_positive_pair_is_an_error(loss, labels):
    sampler = "uniform(batch_size=50)" if len(labels) == 50 else "uniform(batch_size=1)"
    with pytest.raises(ValueError, match=r"None of the first 64 batches of --sampler=uniform\(.*two images of a class"):
        check(sampler, loss, labels)


def test_no_negative_pair_is_an_error():
    with pytest.raises(ValueError, match=r"--sampler=pxk\(classes=1\) has images of one class only"):
        check("pxk(classes=1)", "contrastive")


def test_the_samplers_to_use_are_those_that_declare_it(monkeypatch):
    monkeypatch.setattr(Triplets, "several_per_class", True)
    with pytest.raises(
        ValueError, match=r"Use proportional_pxk or pxk or triplets, whose batches have several images of each class"
    ):
        check("uniform(batch_size=50)", labels=np.arange(50))


def test_a_loss_of_plain_keras_needs_no_pairs():
    sampler = registry.create("sampler", "uniform")
    check_pairs(keras.losses.MeanSquaredError(), sampler, np.arange(128), BatchSettings(), seed=0)


@pytest.mark.parametrize(
    "loss, right", [("contrastive(pairs='given')", "pairs"), ("proxy_nca + triplet(mining='given')", "triplets")]
)
def test_given_pairs_need_the_sampler_that_gives_them(loss, right, caplog):
    for sampler in {"pairs", "triplets", "pxk"} - {right}:
        with pytest.raises(
            ValueError, match=rf"in [23] parts, whose rows.*received --sampler={sampler}, .*[123]. Use {right}\."
        ):
            check(sampler, loss)
    check(right, loss)


def test_one_class_of_training_rows_is_a_warning(caplog):
    check("uniform(batch_size=2)", labels=np.zeros(4))
    assert "All training images are of one class" in caplog.text


def test_few_positive_pairs_are_a_warning(caplog):
    check("uniform(batch_size=32)")
    # Of 31 others out of 3199, 7 of which are of the class, one is expected for 6.6 % of the images.
    assert re.search(r"Only [5-8]\.\d % .* --sampler=uniform\(batch_size=32\)", caplog.text)


@pytest.mark.parametrize(
    "sampler, loss",
    [
        ("pxk(classes=2, per_class=2)", "triplet"),
        ("pairs(images=32)", "contrastive"),
        ("uniform(batch_size=512)", "triplet"),
    ]
    + [(sampler, "proxy_nca") for sampler in ("uniform(batch_size=1)", "pxk(classes=1)")],
)
def test_batches_with_pairs_and_losses_without_need_are_fine(sampler, loss, caplog):
    check(sampler, loss)
    assert not caplog.text


def test_labels_that_changed_since_are_those_of_the_sampler(caplog):
    sampler = PseudoClasses(PxK(classes=8, per_class=4))
    sampler.bind(EIGHT_OF_EACH)
    sampler.assign(np.random.default_rng(0).permutation(EIGHT_OF_EACH))
    check_pairs(registry.create("loss", "n_pair"), sampler, EIGHT_OF_EACH, BatchSettings(), seed=0)
    assert not caplog.text
