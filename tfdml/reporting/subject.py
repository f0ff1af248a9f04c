"""`Subject`: the model of a run that figures show, and what several figures need from it."""

import dataclasses
import functools
import logging

import keras
import numpy as np

from pipelines.images.decoding import thumbnail
from pipelines.preprocessing import preprocessing_of
from tfdml.console.progress_bar import ProgressBar
from tfdml.evaluation.queries import Retrieved
from tfdml.evaluation.verification.pairs import RetrievalPairs
from tfdml.run.directory.checkpoints import CheckpointFolder
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import Experiment
from tfdml.run.experiment.splits import Splits
from tfdml.run.training.result import diversity_of

# Number of nearest neighbors that are searched for each query.
NEIGHBORS = 8


@dataclasses.dataclass(frozen=True)
class Subject:
    """A run from which figures are drawn. The result is empty while the run trains.

    Values that are expensive are computed on first access, and only once.
    """

    experiment: Experiment
    model: keras.Model
    run: RunDirectory
    result: dict

    @property
    def test(self):
        """The test split, which figures show."""
        return self.experiment.splits.test

    @functools.cached_property
    def embeddings(self):
        """Embeddings `[N, D]` of the test split."""
        return self.experiment.embed(self.model, self.test)

    @property
    def class_names(self):
        """Class label to name, or empty if classes have no names."""
        return self.test.class_names or {}

    @property
    def distance(self):
        """How embeddings are compared: `cosine` or `euclidean`."""
        return self.experiment.splits.protocol.distance

    @functools.cached_property
    def task(self):
        """The `RetrievalTask` of the test split without pooling. If there are several, the first."""
        return dataclasses.replace(self.experiment.splits.protocol.tasks(self.test)[0], pooling=None)

    @functools.cached_property
    def pairs(self):
        """The `RetrievalPairs` of the task."""
        return RetrievalPairs.of(self.embeddings, self.task, self.distance)

    @functools.cached_property
    def retrieved(self):
        """The nearest images of each query, or of a sample of the queries."""
        seed = self.experiment.settings.run.seed
        return looked_up(self.embeddings, self.task, NEIGHBORS, distance=self.distance, seed=seed)

    @functools.cached_property
    def tells_places(self):
        """Whether the model can compute what each place of an image contributes to its embedding."""
        try:
            self.model.places(self.inputs([0]))
        except ValueError:
            return False
        return True

    @functools.cached_property
    def learner_count(self):
        """Number of learners, which have concatenated embeddings."""
        if self.model.learner_count is None:
            self.model(self.inputs([0]))
        return self.model.learner_count

    @functools.cached_property
    def learners(self):
        """How the learners differ, from the result or measured now, or None if there is one learner."""
        if "learners" in self.result or self.learner_count == 1:
            return self.result.get("learners")
        metrics = self.experiment.splits.protocol.while_training
        return diversity_of(self.experiment, self.embeddings, self.learner_count, metrics)

    @property
    def negative_distances(self):
        """Distances of negative pairs within and between the clusters of the training images, or None."""
        return (self.result.get("clusters") or self._clusters_saved).get("negative_distances")

    @functools.cached_property
    def _clusters_saved(self):
        """What the newest checkpoint contains about clusters, by name, or an empty dictionary."""
        newest = CheckpointFolder(self.run.checkpoints).read_newest(logging.warning)
        return (newest and newest[2].get("clusters")) or {}

    @functools.cached_property
    def clusters(self):
        """The training split and the cluster `[N]` of each image in the newest checkpoint, or None without it."""
        assignment = self._clusters_saved.get("assignment")
        if not assignment:
            return None
        # Figures read and evaluate only the test split, but the clusters belong to the training split of the run.
        saved, settings = self.run.settings().evaluation, self.experiment.settings
        evaluation = dataclasses.replace(settings.evaluation, evaluate_on=saved.evaluate_on, folds=saved.folds)
        classes = self.run.recorded_dataset().get("classes")
        train = Splits.of(settings.data, evaluation, settings.run.seed, classes=classes).train
        return (train, np.array(assignment)) if len(train) == len(assignment) else None

    def thumbnail(self, row, side, split=None):
        """Returns a small copy of an image of a split, by default the test split, uint8 `[side, side, 3]`."""
        return thumbnail(split or self.test, row, side)

    def inputs(self, rows):
        """Returns the network's inputs for some rows, `[B, H, W, 3]`."""
        split = self.test.where(rows)
        batches = self.experiment.images.evaluation(split, self.model)
        return np.concatenate([batch.numpy() for batch in batches])[: len(split)]

    def pixels(self, inputs):
        """Converts inputs of the network back to uint8 images."""
        about = preprocessing_of(self.model)
        return pixels_of(inputs, about["mean"], about["std"], about["channels"])


def looked_up(embeddings, task, k, **options):
    """Returns `Retrieved.of` these arguments and shows a progress bar."""
    return Retrieved.of(embeddings, task, k, bar=functools.partial(ProgressBar, unit="lookup"), **options)


def pixels_of(images, mean, std, channels):
    """Converts inputs of a network back to uint8 images."""
    pixels = np.clip(np.round(images * std + mean), 0, 255).astype(np.uint8)
    return pixels[..., ::-1] if channels == "bgr" else pixels
