"""Computes the proxies of a loss from images, every epoch."""

import keras
import numpy as np

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.clustering import check_finite
from tfdml.evaluation.embed import Embedder
from tfdml.evaluation.metrics.unit_length import unit_length
from tfdml.hard_proxies import hard_proxies


class ImageProxies(keras.callbacks.Callback):
    """Sets proxies to the features of one image of each class at the start of every epoch, and hardens them.

    The images are drawn once, from the seed. `steps` of equation (7) of EDMS move their features where the loss is
    higher; with 0 steps they stay. Each learner has proxies of its own features.

    Example: with `loss=ContextualManifold(classes=50, proxies="hard")`,
    `model.fit(batches, callbacks=[ImageProxies(images, labels)])`.

    Args:
        images: all training images, preprocessed as in evaluation: a dataset of full batches, which may extend beyond
            the last row, or an array.
        labels: `[N]` class of each, from 0 to C - 1.
        seed: integer that determines the images of proxies.
        steps, rate: most steps of (7) and their learning rate, see `tfdml.hard_proxies.hard_proxies`.
        steps_per_epoch: steps of an epoch, so that one that a resumed run goes on with keeps its proxies; None: each
            call of `fit` begins with a whole epoch.
        log: object with `write(event, step, values)`, or None.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        verbose: verbosity of embedding, see `tfdml.evaluation.embed.Embedder`.
    """

    def __init__(
        self, images, labels, *, seed=0, steps=1000, rate=1e-3, steps_per_epoch=None, log=None, step=None, verbose=0
    ):
        super().__init__()
        self.images, self.labels = images, np.asarray(labels)
        self.rows = _one_of_each(self.labels, seed)
        self.steps, self.rate = steps, rate
        self.steps_per_epoch = steps_per_epoch
        self.log, self.verbose = log, verbose
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        self._embedder = Embedder(model, verbose=self.verbose)

    def on_epoch_begin(self, epoch, logs=None):
        # Proxies are among the weights, which a resumed run has from its checkpoint.
        if self.steps_per_epoch and self._step() % self.steps_per_epoch:
            return
        layers = self.model.loss_layers.learners
        if len(layers) != self.model.learner_count:
            raise ValueError(
                f"Proxies that are features of images need a layer of the loss for each learner; {self.model.name} has "
                f"{len(layers)} for {self.model.learner_count} learners, because it merges them later. Use "
                "proxies='learnt'."
            )
        embeddings = self._embedder(self.images, len(self.labels))
        check_finite(embeddings)
        found = [self._renew(*each) for each in zip(layers, np.split(embeddings, len(layers), axis=1), strict=True)]
        if self.log:
            self.log.write(
                "proxies", self._step(), {name: np.mean([each[name] for each in found]) for name in found[0]}
            )

    def _renew(self, layer, embeddings):
        """Assigns the proxies of a learner, and tells how they stand to the images."""
        features = unit_length(embeddings)
        (proxies,) = self._embedder.workers.from_first(
            lambda: (hard_proxies(features, self.labels, self.rows, learning_rate=self.rate, steps=self.steps),)
        )
        layer.assign_image_proxies(proxies)
        return {
            "similarity_to_image": float(np.mean(np.sum(proxies * features[self.rows], axis=1))),
            "nearest_is_own": float(np.mean(_nearest(features, proxies) == self.labels)),
        }


def _one_of_each(labels, seed):
    """Returns the row of a random image of each class."""
    order = np.random.default_rng(seed).permutation(len(labels))
    classes, first = np.unique(labels[order], return_index=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(f"Expected labels from 0 to {len(classes) - 1} without a gap, received {classes[:10]}...")
    return order[first]


def _nearest(features, proxies, block=8192):
    parts = [features[start : start + block] @ proxies.T for start in range(0, len(features), block)]
    return np.concatenate([np.argmax(part, axis=1) for part in parts])
