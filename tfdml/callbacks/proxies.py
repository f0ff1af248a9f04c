"""Callbacks that compute the proxies of a loss from images, such as the hard proxies of EDMS."""

from typing import Annotated, Unpack

import numpy as np

from tfdml.callbacks.base import EmbeddingCallback, MethodModel, PassArguments
from tfdml.evaluation.embedder import ImageBatches
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Count, Labels, NotNegative, Positive, integer
from tfdml.registry.fields import declared
from tfdml.registry.loss_hooks import hooks_of

# Images that are compared with proxies at once.
BLOCK = 8192


@declared
def hard_proxies(
    features,
    meta_classes,
    images,
    *,
    learning_rate: Positive = 1e-3,
    steps: Annotated[int, integer(0)] = 1000,
    tolerance: NotNegative = 1e-3,
    block: Count = BLOCK,
):
    """Computes hard proxies from the features of one image of each meta-class, by gradient descent on equation (7).

    Aziere and Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies, 2019. For the feature p_k of an
    image of the meta-class D_k, the hard proxy minimizes

        log(1 + sum_n exp(s(p, x_n) - s(p, p_k))), x_n over the other images of D_k,

    over p, where s are dot products. A smaller value is a harder proxy: p is farther from the images that it stands
    for, which makes the loss of these images, such as (4), larger. -s(p, p_k) holds p near p_k.

    Proxies stay on the unit sphere, where Sec. 3 and 4.1 have all proxies. The equation is over all of R^l, but there
    it has no minimum: a longer p_k always lowers it, towards 0. On the sphere, the minimum has the direction of
    p_k - x, where x is the mean of D_k weighted by exp(s(p, x_n)). It can be far from p_k, nearly at a right angle if
    the images of D_k are alike. So the number of steps, of which the paper says nothing, decides how hard proxies
    become.

    Example: `proxies = hard_proxies(features, random_meta_classes(labels, 50, seed=0), images)`.

    Args:
        features: `[M, l]` of all training images, of unit length. Read in blocks, so they can be memory-mapped.
        meta_classes: `[M]` meta-class of each image, from 0 to K - 1.
        images: `[K]` row number of the image that gives the proxy of each meta-class.
        learning_rate: step of the descent, as a factor of the gradient.
        steps: most steps of the descent.
        tolerance: a proxy stays where it is once its gradient along the sphere is at most this long.
        block: number of images that are compared at once.

    Returns:
        `[K, l]` hard proxies of unit length, in the type of the features.
    """
    meta_classes, images = np.asarray(meta_classes), np.asarray(images)
    _check(features, meta_classes, images, block)
    proxies = unit_length(np.asarray(features[images], np.float64))
    for _ in range(steps):
        _, gradients = objective(proxies, features, meta_classes, images, block=block)
        along = gradients - np.sum(gradients * proxies, axis=1, keepdims=True) * proxies
        moving = np.linalg.norm(along, axis=1, keepdims=True) > tolerance
        if not np.any(moving):
            break
        proxies = np.where(moving, unit_length(proxies - learning_rate * along), proxies)
    return proxies.astype(features.dtype)


def objective(proxies, features, meta_classes, images, *, block=BLOCK):
    """Returns the values `[K]` of equation (7), and their gradients `[K, l]`, at any proxies `[K, l]`.

    See `hard_proxies` for the other arguments.
    """
    sums, weighted = np.zeros(len(proxies)), np.zeros(proxies.shape)
    starts = np.asarray(features[images], np.float64)
    at_starts = np.sum(proxies * starts, axis=1)
    for first in range(0, len(features), block):
        rows, own = features[first : first + block], meta_classes[first : first + block]
        similarities = np.einsum("nl,nl->n", rows, proxies[own].astype(rows.dtype))
        weights = np.exp(similarities - at_starts[own])
        sums += np.bincount(own, weights, len(proxies))
        order = np.argsort(own, kind="stable")
        present, begins = np.unique(own[order], return_index=True)
        weighted[present] += np.add.reduceat((weights[:, None] * rows)[order], begins, axis=0, dtype=np.float64)
    # The image that gives the proxy is in these sums: its term exp(0) is the 1 of the equation.
    return np.log(sums), weighted / sums[:, None] - starts


def _check(features, meta_classes, images, block):
    if features.ndim != 2 or meta_classes.shape != (len(features),):
        raise ValueError(
            "Expected features of shape [images, dim] and one meta-class for each, received shapes "
            f"{features.shape} and {meta_classes.shape}."
        )
    count = int(meta_classes.max()) + 1
    if images.shape != (count,) or not np.array_equal(meta_classes[images], np.arange(count)):
        raise ValueError(
            f"Expected one image of each of the {count} meta-classes, in their order; received {len(images)} images of "
            f"the meta-classes {meta_classes[images].tolist()}."
        )
    for first in range(0, len(features), block):
        lengths = np.linalg.norm(features[first : first + block], axis=1)
        # Written so that NaN is an error, too.
        wrong = np.flatnonzero(~(np.abs(lengths - 1.0) < 1e-3))
        if len(wrong):
            raise ValueError(
                f"Expected features of unit length; that of image {first + wrong[0]} is {lengths[wrong[0]]:.4g}."
            )


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
                "proxies='learned'."
            )
        parts = np.split(self.embed(), len(layers), axis=1)
        statistics = [self._renew(*each) for each in zip(layers, parts, strict=True)]
        self.tell("proxies", {name: np.mean([each[name] for each in statistics]) for name in statistics[0]})

    def _renew(self, layer, embeddings):
        """Assigns the proxies of a learner, and tells how they stand to the images."""
        features = unit_length(embeddings)
        descent = hooks_of(self.model.loss).image_proxies
        (proxies,) = self.workers.from_first(lambda: (hard_proxies(features, self.labels, self.rows, **descent),))
        layer.assign_image_proxies(proxies)
        blocks = (features[start : start + BLOCK] for start in range(0, len(features), BLOCK))
        nearest = np.concatenate([np.argmax(block @ proxies.T, axis=1) for block in blocks])
        return {
            "similarity_to_image": float(np.mean(np.sum(proxies * features[self.rows], axis=1))),
            "similarity_to_each_other": _similarity_of_pairs(proxies),
            "nearest_is_own": float(np.mean(nearest == self.labels)),
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
