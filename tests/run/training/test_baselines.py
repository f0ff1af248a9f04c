"""Baselines are made at the end of a run, which nothing of theirs may make fail."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.run.parsed_flags import parsed
from tests.run_helpers import pictures
from tfdml.run.experiment.splits import Splits
from tfdml.run.training import gain

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
def test_a_linear_layer_is_trained_with_any_loss(monkeypatch, flags):
    monkeypatch.setattr(gain, "STEPS", 2)
    experiment, tolerated = experiment_of("--baselines=linear", "--embedding_size=16", *flags)
    gain.check_baselines(experiment)
    found = gain.baselines_of(experiment, None, np.zeros((3, 20), np.float32))
    assert found == {"baselines": {"linear": {"dims": 16}}}
    assert tolerated == [True]


def test_baselines_of_classes_are_refused_before_training_where_there_are_none():
    experiment, _ = experiment_of("--baselines=pca,lda,linear", "--labels=images")
    with pytest.raises(ValueError, match="--baselines=lda,linear: these tell classes apart, and no class has two"):
        gain.check_baselines(experiment)
    gain.check_baselines(experiment_of("--baselines=pca", "--labels=images")[0])
