"""Datasets of a run are built once."""

from types import SimpleNamespace

from tfdml.run.experiment.images import Batches


class Images:
    """Stands for `ImageData`, and counts what it builds."""

    def __init__(self):
        self.built = []

    def check(self, model):
        self.built.append("check")

    def evaluation(self, split, model, again):
        self.built.append(split)
        return split

    def training(self, model, sampler, progress, length, weight_power):
        self.built.append((length, weight_power))
        return object()


def test_each_dataset_is_built_once_and_before_training():
    images = Images()
    settings = SimpleNamespace(batches=SimpleNamespace(class_weights=0.5))
    experiment = SimpleNamespace(images=images, splits=SimpleNamespace(evaluation="held out"), settings=settings)
    batches = Batches(experiment, "model", "sampler", SimpleNamespace(steps_per_epoch=5))
    assert images.built == ["check", "held out", (5, 0.5)]
    assert batches.training(5) is batches.training(5) and batches.evaluation == "held out"
    # The rest of an epoch, where a run goes on.
    batches.training(2)
    assert images.built == ["check", "held out", (5, 0.5), (2, 0.5)]
