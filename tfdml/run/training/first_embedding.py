"""How the embedding of a run begins."""

import numpy as np

from tfdml.callbacks import InitialEmbedding
from tfdml.console.progress_bar import verbosity
from tfdml.run.training.fine_tuning import without_auto

# Training images whose features tell the principal components well enough.
MOST = 10_000


def initial_embedding(experiment, model, step=None):
    """Returns a list with the `InitialEmbedding` of a run; none where the embedding begins at random.

    Args:
        experiment: `Experiment`.
        model: the model.
        step: function that returns the number of steps taken.
    """
    network = experiment.settings.network
    kind = without_auto(experiment.settings, model.backbone).network.initial_embedding
    # What `auto` would replace may be an embedding that has learned.
    keeps = network.initial_embedding == "auto" and (network.initial_model or not InitialEmbedding.suits(model))
    if kind == "random" or keeps:
        return []
    train, seed = experiment.splits.train, experiment.settings.run.seed
    if len(train) > MOST:
        train = train.where(np.sort(np.random.default_rng(seed).permutation(len(train))[:MOST]))
    images = experiment.images.evaluation(train, model, tolerant=True)
    return [InitialEmbedding(images, kind, len(train), step=step, verbose=verbosity(experiment.chief))]
