"""Clusters of Divide and Conquer in the embedding of a run's model."""

import dataclasses

import numpy as np

from tfdml.run.experiment.image_data import ImageData

# Training images that are embedded to find the means of clusters, and typical images.
MOST_TRAINING = 4000


def embedded_sample(experiment, model, train):
    """Embeds the training images, or a random sample of them.

    Args:
        experiment: `Experiment`.
        model: the model.
        train: the training split.

    Returns:
        Their rows, ascending, and their embeddings.
    """
    rows = np.arange(len(train))
    if len(rows) > MOST_TRAINING:
        random = np.random.default_rng(experiment.settings.run.seed)
        rows = np.sort(random.choice(rows, MOST_TRAINING, replace=False))
        train, experiment = train.where(rows), _without_cache(experiment)
    return rows, experiment.embed(model, train, tolerant=True)


def clusters_of(embeddings, experiment, model, train, assignment):
    """Returns the cluster `[N]` of each test image: the one whose mean, of training images, is nearest.

    Args:
        embeddings: `[N, D]` of the test images, by the model.
        experiment, model, train: as `embedded_sample` takes them.
        assignment: the cluster of each training image; None where there are none, as is the result then.
    """
    if assignment is None:
        return None
    rows, sample = embedded_sample(experiment, model, train)
    return nearest_means(embeddings, sample, assignment[rows])


def nearest_means(embeddings, points, clusters):
    """Returns for each embedding `[N, d]` the cluster whose mean is nearest.

    Args:
        embeddings: `[N, d]` array.
        points: `[P, d]` array.
        clusters: `[P]` integers, the cluster of each point.
    """
    known, places, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    means = np.zeros([len(known), points.shape[1]])
    np.add.at(means, places, points)
    means /= counts[:, None]
    # Squared distances, but for what all clusters have in common.
    return known[np.argmin(np.sum(means**2, axis=1) - 2 * embeddings @ means.T, axis=1)]


def _without_cache(experiment):
    """The same experiment, whose cache does not keep what is read once."""
    images = dataclasses.replace(experiment.settings.images, cache="none")
    return dataclasses.replace(experiment, images=ImageData(images, experiment.strategy))
