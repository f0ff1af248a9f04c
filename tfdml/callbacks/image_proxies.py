"""Computes the proxies of a loss from images, every epoch."""

from typing import Unpack

import numpy as np

from tfdml.callbacks.embedding_callback import EmbeddingCallback, MethodModel, PassArguments
from tfdml.callbacks.hard_proxies import hard_proxies
from tfdml.evaluation.embedder import ImageBatches
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Labels
from tfdml.registry.loss_hooks import hooks_of


class ImageProxies(EmbeddingCallback):
    """Sets proxies to the features of one image of each class at the start of every epoch, and hardens them.

    The images are drawn once, from the seed. Where the loss has `proxies="hard"`, as many steps of equation (7) of EDMS
    as it says move their features to where it is higher. Each learner has proxies of its own features.

    Example: with `loss=ContextualManifold(classes=50, proxies="hard")`,
    `model.fit(batches, shuffle=False, callbacks=[ImageProxies(images, labels)])`.

    Args:
        images: all training images, see `EmbeddingCallback`.
        labels: `[N]` class of each, from 0 to C - 1.
        seed: integer that determines the images of proxies.
        **kwargs: other arguments of `EmbeddingCallback`, but for `count`.
    """

    def __init__(self, images: ImageBatches, labels: Labels, *, seed: int = 0, **kwargs: Unpack[PassArguments]):
        super().__init__(images, len(labels), **kwargs)
        self.labels = np.asarray(labels)
        self.rows = _one_of_each(self.labels, seed)

    def set_model(self, model):
        super().set_model(model)
        loss = hooks_of(model.loss)
        if not (isinstance(model, MethodModel) and loss.image_proxies):
            raise ValueError(
                "ImageProxies computes the proxies of a model of tfdml whose loss has proxies='images' or 'hard'; "
                f"received {type(model).__name__} with {type(model.loss).__name__}."
            )
        if loss.classes not in (None, len(self.rows)):
            raise ValueError(f"Expected labels of {loss.classes} classes, as the loss has; received {len(self.rows)}.")

    def begin_epoch(self, epoch, goes_on):
        # Proxies are among the weights, which a resumed run has from its checkpoint.
        if goes_on:
            return
        layers = self.model.loss_layers.learners
        if len(layers) != self.model.learner_count:
            raise ValueError(
                f"Proxies that are features of images need a layer of the loss for each learner; {self.model.name} has "
                f"{len(layers)} for {self.model.learner_count} learners, because it merges them later. Use "
                "proxies='learnt'."
            )
        parts = np.split(self.embed(), len(layers), axis=1)
        found = [self._renew(*each) for each in zip(layers, parts, strict=True)]
        self.tell("proxies", {name: np.mean([each[name] for each in found]) for name in found[0]})

    def _renew(self, layer, embeddings):
        """Assigns the proxies of a learner, and tells how they stand to the images."""
        features = unit_length(embeddings)
        descent = hooks_of(self.model.loss).image_proxies
        (proxies,) = self.workers.from_first(lambda: (hard_proxies(features, self.labels, self.rows, **descent),))
        layer.assign_image_proxies(proxies)
        return {
            "similarity_to_image": float(np.mean(np.sum(proxies * features[self.rows], axis=1))),
            "similarity_to_each_other": _similarity_of_pairs(proxies),
            "nearest_is_own": float(np.mean(_nearest(features, proxies) == self.labels)),
        }


def _one_of_each(labels, seed):
    """Returns the row of a random image of each class."""
    # Another order than that of a partition into meta-classes with the same seed.
    order = np.random.default_rng((seed, 1)).permutation(len(labels))
    classes, first = np.unique(labels[order], return_index=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(f"Expected labels from 0 to {len(classes) - 1} without a gap, received {classes[:10]}...")
    return order[first]


def _similarity_of_pairs(proxies):
    """Returns the mean dot product of two of the proxies, without all of their products; of a single one 1."""
    count, total = len(proxies), np.sum(proxies, axis=0, dtype=np.float64)
    itself = np.sum(np.square(proxies), dtype=np.float64)
    return float((total @ total - itself) / (count * (count - 1))) if count > 1 else 1.0


def _nearest(features, proxies, block=8192):
    parts = [features[start : start + block] @ proxies.T for start in range(0, len(features), block)]
    return np.concatenate([np.argmax(part, axis=1) for part in parts])
