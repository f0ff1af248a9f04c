"""How the embedding of a run begins."""

import numpy as np

from tfdml.callbacks import InitialEmbedding
from tfdml.console.progress_bar import verbosity
from tfdml.run.training.fine_tuning import without_auto

# Training images whose features tell the directions well enough.
MOST = 10_000
# Images of a class, below which fewer classes are taken.
OF_A_CLASS = 10


def initial_embedding(experiment, model, step=None, on_choice=None):
    """Returns a list with the `InitialEmbedding` of a run; none where the embedding begins at random.

    Args:
        experiment: `Experiment`.
        model: the model.
        step: function that returns the number of steps taken.
        on_choice: function of the chosen kind and the Recall@1 of each, see `InitialEmbedding`.
    """
    network, train = experiment.settings.network, experiment.splits.train
    kind = without_auto(experiment.settings, model.backbone, train.labels).network.initial_embedding
    # What `auto` would replace may be an embedding that has learned.
    keeps = network.initial_embedding == "auto" and (network.initial_model or not InitialEmbedding.suits(model))
    if kind == "random" or keeps:
        return []
    seed = experiment.settings.run.seed
    if len(train) > MOST:
        train = train.where(_some(train.labels, np.random.default_rng(seed)))
    images = experiment.images.evaluation(train, model, tolerant=True)
    options = {"kind": kind, "step": step, "on_choice": on_choice, "verbose": verbosity(experiment.chief)}
    return [InitialEmbedding(images, train.labels, **options)]


def _some(labels, random):
    """Rows of at most `MOST` images, sorted: as many of each class as may be, but few classes before few images."""
    rows = random.permutation(len(labels))
    classes, sizes = np.unique(labels, return_counts=True)
    by_class = rows[np.argsort(labels[rows], kind="stable")]
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = by_class[place < max(MOST // len(classes), OF_A_CLASS)]
    turn = np.argsort(random.permutation(len(classes)))[np.searchsorted(classes, labels[kept])]
    return np.sort(kept[np.argsort(turn, kind="stable")][:MOST])
