import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from pipelines.datasets import Split
from pipelines.sampling import Given, PseudoClasses, PxK, Triplets, Views, WithinClusters
from tfdml import registry
from tfdml.console.settings import BatchSettings, Settings
from tfdml.run.training.run_sampler import check_pairs, make_sampler, sampler_of


def test_a_sampler_without_the_base_class_is_told(monkeypatch):
    class Bare:
        batch_size = 4

    monkeypatch.setattr(registry, "create", lambda kind, spec: Bare())
    with pytest.raises(ValueError, match="--sampler=bare: Bare must be a subclass of pipelines.sampling.Sampler"):
        make_sampler("bare", None, None)


@pytest.mark.parametrize("counts, expected", [([6] * 30, (16, 4)), ([30] * 5 + [1], (5, 12)), ([9, 9], (2, 32))])
def test_auto_fits_the_classes(counts, expected):
    train = SimpleNamespace(labels=np.repeat(np.arange(len(counts)), counts), relations=None, attributes=None)
    sampler = make_sampler("auto", SimpleNamespace(train=train, clusters=None), None)
    assert (sampler.classes, sampler.per_class) == expected


def test_auto_draws_views_of_images_without_classes_and_pairs_that_are_given():
    images = np.array([f"{row}.jpg" for row in range(40)], dtype=object)
    views = make_sampler("auto", SimpleNamespace(train=Split(images, np.arange(40)), clusters=None), None)
    assert isinstance(views, Views) and views.batch_size == 64
    relations = np.array([[row, row + 1, -1] for row in range(0, 20, 2)])
    train = Split(images, np.arange(40), relations=relations)
    given = make_sampler("auto", SimpleNamespace(train=train, clusters=None), None)
    assert isinstance(given, Given) and given.batch_size == 20


def test_classes_of_one_image_are_told_of_the_dataset_without_classes():
    train = Split(np.array([f"{row}.jpg" for row in range(40)], dtype=object), np.arange(40))
    splits = SimpleNamespace(train=train, clusters=None, dataset=SimpleNamespace(has_classes=True))
    with pytest.raises(ValueError, match="Each class has a single image. Without classes, use --dataset=photos"):
        make_sampler("pxk", splits, None)


class Rows:
    """A training split of 96 images in 16 classes."""

    labels = np.repeat(np.arange(16), 6)

    def __len__(self):
        return len(self.labels)


def wrapped(replicas):
    """The sampler of four learners that learn at once, with six images each, and the steps of an epoch."""
    sampler = PxK(classes=3, per_class=2)
    sampler.bind(Rows.labels)
    model = SimpleNamespace(wrap_sampler=lambda sampler: WithinClusters(sampler, shuffle=False, at_once=4))
    settings = Settings().replace(sampler="pxk(classes=3, per_class=2)", epochs=8)
    experiment = SimpleNamespace(
        settings=settings, splits=SimpleNamespace(train=Rows()), strategy=SimpleNamespace(num_replicas_in_sync=replicas)
    )
    return sampler_of(model, sampler, experiment)


def test_an_epoch_of_learners_that_learn_at_once_is_one_pass_over_the_images():
    sampler, length = wrapped(replicas=4)
    assert sampler.batch_size == 24 and length.steps_per_epoch == 4
    assert sampler.rows(0, range(2)).shape == (2, 24)


def test_a_batch_that_does_not_split_over_the_replicas_is_told():
    with pytest.raises(ValueError, match="batch of 24 images of --sampler=pxk.* does not split evenly over 5 replicas"):
        wrapped(replicas=5)


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
    with pytest.raises(ValueError, match=r"--sampler=pxk\(classes=1\) has images of a single class"):
        check("pxk(classes=1)", "contrastive")


def test_the_samplers_to_use_are_those_that_declare_it(monkeypatch):
    monkeypatch.setattr(Triplets, "several_per_class", True)
    with pytest.raises(
        ValueError, match=r"Use proportional_pxk or pxk or triplets, which draw several images per class"
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
            ValueError, match=rf"with [23] parts, .*batches of --sampler={sampler} have [123]. Use {right}\."
        ):
            check(sampler, loss)
    check(right, loss)


def test_one_class_of_training_rows_is_a_warning(caplog):
    check("uniform(batch_size=2)", labels=np.zeros(4))
    assert "All training images have the same class" in caplog.text


def test_few_positive_pairs_are_a_warning(caplog):
    check("uniform(batch_size=32)")
    # Of 31 others out of 3199, 7 of which are of the class, one is expected for 6.6 % of the images.
    assert re.search(r"Only [5-8]\.\d% .* --sampler=uniform\(batch_size=32\)", caplog.text)


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
