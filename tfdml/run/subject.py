"""What pictures show: a model of a run, and what several pictures need of it."""

import dataclasses
import functools

import numpy as np

from pipelines.images.pictures import thumbnail
from tfdml.methods import EmbeddingModel
from tfdml.preprocessing import preprocessing_of
from tfdml.run.experiment import Experiment
from tfdml.run.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class Subject:
    """A run that pictures are drawn of. What takes time is computed when it is first asked for, and once.

    Args:
        experiment: `Experiment`.
        model: the model.
        run: `RunDirectory`.
        result: the result; empty while the run goes on.
    """

    experiment: Experiment
    model: EmbeddingModel
    run: RunDirectory
    result: dict

    @property
    def test(self):
        """The test split, which pictures show."""
        return self.experiment.splits.test

    @functools.cached_property
    def embeddings(self):
        """Embeddings `[N, D]` of the test split."""
        return self.experiment.embed(self.model, self.test)

    def thumbnail(self, row, side):
        """The small picture of a row, uint8 `[side, side, 3]`."""
        return thumbnail(self.test, row, side)

    def inputs(self, rows):
        """What the network takes of some rows, `[B, side, side, 3]`."""
        split = self.test.where(rows)
        batches = self.experiment.images.evaluation(split, self.model)
        return np.concatenate([batch.numpy() for batch in batches])[: len(split)]

    def pixels(self, inputs):
        """Converts inputs of the network back to pictures, uint8."""
        return pixels_of(inputs, **preprocessing_of(self.model))


def pixels_of(images, mean, std, channels):
    """Converts the input of the network back to a picture."""
    pixels = np.clip(np.round(images * std + mean), 0, 255).astype(np.uint8)
    return pixels[..., ::-1] if channels == "bgr" else pixels
