"""The datasets that a run reads while it trains."""

import functools


class Batches:
    """Builds the datasets of training and evaluation, each once: tracing their graphs takes up to a second.

    Building them proves that the images, the transforms and the sampler fit together.

    Args:
        experiment: `Experiment`.
        model: the model that is trained.
        sampler: the sampler of the training batches.
        progress: `Progress` of the run.
    """

    def __init__(self, experiment, model, sampler, progress):
        images = experiment.images
        images.check(model)
        self.evaluation = images.evaluation(experiment.splits.evaluation, model)
        self._training = functools.cache(functools.partial(images.training, model, sampler, progress))
        self.training(progress.steps_per_epoch)

    def training(self, length):
        """Returns the training dataset, whose passes have `length` steps."""
        return self._training(length)
