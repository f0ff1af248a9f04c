from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.datasets import Split
from pipelines.sampling import Given, PxK, Views, WithinClusters
from tfdml import registry
from tfdml.console.settings import Settings
from tfdml.run.training.run_sampler import make_sampler, sampler_of


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
    with pytest.raises(ValueError, match="Each class has one image. Without classes, use --dataset=photos"):
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
