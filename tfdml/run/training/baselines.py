"""Baselines of a run: embeddings that are made of the frozen features of its backbone, in seconds."""

import keras
import tensorflow as tf

from pipelines.build import training_batches
from pipelines.dataset import Split
from pipelines.sampling import each_alone
from pipelines.stored import StoredVectors
from tfdml import registry
from tfdml.backbones import Identity
from tfdml.callbacks import InitialEmbedding
from tfdml.callbacks.base import TrainingParts, steps_taken
from tfdml.methods import Single
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.training.model import loss_of
from tfdml.run.training.run_sampler import make_sampler

# Steps and optimizer of the linear layer.
STEPS, OPTIMIZER = 1000, "adam(learning_rate=0.001)"
# Those that are of use, or possible, where there are classes alone.
OF_CLASSES = ("lda", "wccn", "linear")


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
    # Training has gone on without images that cannot be read.
    vectors = experiment.embed(features, experiment.splits.train, tolerant=True)
    found = {name: _head(experiment, vectors, name).predict(tested, verbose=0) for name in names}
    return {"baselines": {name: experiment.measure(each, experiment.splits.test) for name, each in found.items()}}


def check_baselines(experiment):
    """Raises a ValueError if `--baselines` names some that need classes, and no class has two training images."""
    named = [name for name in experiment.settings.network.baselines if name in OF_CLASSES]
    if named and each_alone(experiment.splits.train.labels):
        raise ValueError(
            f"--baselines={','.join(named)}: these tell classes apart, and no class has two training images. Leave "
            "them out; pca and pca_whitened need no classes."
        )


def _head(experiment, vectors, name):
    """A linear layer on vectors `[N, c]` of the training images: as it begins, or, as `linear`, trained."""
    settings, train = experiment.settings, experiment.splits.train
    labels = train.labels
    keras.utils.set_random_seed(settings.run.seed)
    head = Single(Identity(vectors.shape[1]), embedding_size=settings.network.embedding_size)
    head.call_on((1, vectors.shape[1]))
    InitialEmbedding(vectors, labels, kind="wccn" if name == "linear" else name).apply(head)
    if name != "linear":
        return head
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    loss, seed = loss_of(settings.batches.loss, train), settings.run.seed
    head.compile(registry.create("optimizer", OPTIMIZER), loss=loss)
    levels = {"hierarchy": train.hierarchy, "level_names": train.level_names}
    split, step = Split(StoredVectors([vectors]), labels, **levels), tf.Variable(0, dtype=tf.int64)
    batches = training_batches(split, sampler, None, seed=seed, step=step, steps_per_epoch=STEPS)
    # A loss that changes while it trains does so here, too.
    length = {"steps": STEPS, "steps_per_epoch": STEPS, "step": lambda: steps_taken(head)}
    about = {"images": lambda: vectors, "labels": labels, "sampler": sampler, "seed": seed, "log": None, "verbose": 0}
    head.fit(batches, verbose=0, callbacks=hooks_of(loss).callbacks(TrainingParts(**length, **about)))
    return head
