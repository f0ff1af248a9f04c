"""Baselines of a run: embeddings that are made of the frozen features of its backbone, in seconds."""

import keras
import tensorflow as tf

from pipelines.build import training_batches
from pipelines.datasets.dataset import Split
from pipelines.datasets.stored_vectors import StoredVectors
from tfdml import registry
from tfdml.backbones import Identity
from tfdml.callbacks import InitialEmbedding
from tfdml.methods import Single
from tfdml.run.training.run_sampler import make_sampler

# Steps and optimizer of the linear layer.
STEPS, OPTIMIZER = 1000, "adam(learning_rate=0.001)"


def baselines_of(experiment, features, tested):
    """Returns name to metrics on the test split of the baselines that `--baselines` names.

    Args:
        experiment: `Experiment`.
        features: model of the features of the backbone before training.
        tested: features `[N, c]` of the test split.
    """
    names = experiment.settings.network.baselines
    if not names:
        return {}
    vectors = experiment.embed(features, experiment.splits.train)
    found = {name: _head(experiment, vectors, name).predict(tested, verbose=0) for name in names}
    return {"baselines": {name: experiment.measure(each, experiment.splits.test) for name, each in found.items()}}


def _head(experiment, vectors, name):
    """A linear layer on vectors `[N, c]` of the training images: as it begins, or, as `linear`, trained."""
    settings, labels = experiment.settings, experiment.splits.train.labels
    keras.utils.set_random_seed(settings.run.seed)
    head = Single(Identity(vectors.shape[1]), embedding_size=settings.network.embedding_size)
    head.call_on((1, vectors.shape[1]))
    InitialEmbedding(vectors, labels, kind="lda" if name == "linear" else name).apply(head)
    if name != "linear":
        return head
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    loss = registry.create("loss", settings.batches.loss, classes=experiment.splits.train.num_classes)
    head.compile(registry.create("optimizer", OPTIMIZER), loss=loss)
    split, step = Split(StoredVectors([vectors]), labels), tf.Variable(0, dtype=tf.int64)
    batches = training_batches(split, sampler, None, seed=settings.run.seed, step=step, steps_per_epoch=STEPS)
    head.fit(batches, verbose=0)
    return head
