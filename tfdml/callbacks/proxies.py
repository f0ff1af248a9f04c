"""Callbacks that compute the proxies of a loss from images, such as the hard proxies of EDMS."""

from typing import Annotated, Unpack

import numpy as np

from tfdml.callbacks.base import EmbeddingCallback, MethodModel, PassArguments
from tfdml.evaluation.embedder import ImageBatches
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Count, Labels, NotNegative, Positive, integer
from tfdml.registry.fields import declared
from tfdml.registry.loss_hooks import hooks_of

# Number of images that are compared with the proxies at once.
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
    """Computes the hard proxies of EDMS from the features of one image per meta-class, by gradient descent.

    The method is equation (7) of Aziere and Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies,
    2019. For the feature p_k of an image of the meta-class D_k, the hard proxy p minimizes

        log(1 + sum_n exp(s(p, x_n) - s(p, p_k))), where x_n are the other images of D_k

    and s are dot products. A smaller value means a harder proxy, because p is farther from the images that it
    represents. This makes the loss of these images, such as equation (4), larger. The term -s(p, p_k) keeps p near p_k.

    We keep proxies on the unit sphere, like all proxies in Sec. 3 and 4.1. The paper's equation is over all of R^l, but
    there it has no minimum: a longer p_k always brings it closer to 0. On the sphere, the minimum has the direction of
    p_k - x, where x is the mean of D_k weighted by exp(s(p, x_n)). It can be far from p_k, nearly at a right angle if
    the images of D_k are similar. Therefore the number of steps, which the paper does not specify, determines how hard
    proxies become.

    Args:
        features: `[M, l]` L2-normalized features of all training images. They are read in blocks, so they can be
            memory-mapped.
        meta_classes: `[M]` meta-class of each image, from 0 to K - 1.
        images: `[K]` index of the image that provides the proxy of each meta-class.
        learning_rate: Float. Factor of the gradient in each step. Defaults to `1e-3`.
        steps: Integer. Maximum number of steps. Defaults to `1000`.
        tolerance: Float. A proxy stops moving when the length of its gradient along the sphere is at most this value.
            Defaults to `1e-3`.
        block: Integer. Number of images that are compared at once. Defaults to `8192`.

    Returns:
        `[K, l]` L2-normalized hard proxies, with the dtype of the features.

    Raises:
        ValueError: If features are not L2-normalized, or if `images` does not have one image of each meta-class.

    Example:

    ```python
    from tfdml.callbacks.proxies import hard_proxies

    features = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    hard_proxies(features, np.array([0, 0, 1, 1]), np.array([0, 2]), steps=100).shape  # (2, 2)
    ```
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
    """Returns the values `[K]` of equation (7) at proxies `[K, l]` and their gradients `[K, l]`; see `hard_proxies`."""
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
    # The sums include the image that provides the proxy. Its term exp(0) is the 1 of the equation.
    return np.log(sums), weighted / sums[:, None] - starts


def _check(features, meta_classes, images, block):
    if features.ndim != 2 or meta_classes.shape != (len(features),):
        raise ValueError(
            "Each image needs features and a meta-class. Expected features of shape [images, dim] and meta_classes of "
            f"shape [images]. Received: features of shape {features.shape} and meta_classes of shape "
            f"{meta_classes.shape}."
        )
    count = int(meta_classes.max()) + 1
    if images.shape != (count,) or not np.array_equal(meta_classes[images], np.arange(count)):
        raise ValueError(
            f"images must have one image of each of the {count} meta-classes, in their order. Received: {len(images)} "
            f"images of the meta-classes {meta_classes[images].tolist()}."
        )
    for first in range(0, len(features), block):
        lengths = np.linalg.norm(features[first : first + block], axis=1)
        # The negation makes NaN an error as well.
        wrong = np.flatnonzero(~(np.abs(lengths - 1.0) < 1e-3))
        if len(wrong):
            raise ValueError(
                "features must be L2-normalized. Received: a feature of length "
                f"{lengths[wrong[0]]:.4g} for image {first + wrong[0]}."
            )


class ImageProxies(EmbeddingCallback):
    """Callback that sets the proxies of a loss to the features of one image per class at the start of every epoch.

    Losses with `proxies="images"` or `proxies="hard"` require it; the training command adds it. The images are drawn
    once, at random. With `proxies="hard"`, gradient descent on equation (7) of EDMS then moves each proxy away from the
    images that it represents, which makes their loss larger. Each learner has proxies from its own features.

    Args:
        images: All training images, see `EmbeddingCallback`.
        labels: `[N]` integer class labels from 0 to C - 1.
        seed: Integer. Determines which images become proxies. Defaults to `0`.
        **kwargs: Other arguments of `EmbeddingCallback`, except `count`.

    Raises:
        ValueError: If the loss of the model does not have `proxies="images"` or `proxies="hard"`, or if the labels do
            not match its number of classes.

    Example:

    ```python
    labels = np.repeat(np.arange(4), 4)
    images = np.random.uniform(-2, 2, (16, 16, 16, 3))
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", tfdml.losses.ContextualManifold(classes=4, proxies="hard"))
    proxies = tfdml.callbacks.ImageProxies(images, labels)
    history = model.fit(images, labels, callbacks=[proxies], verbose=0)
    labels[proxies.rows]  # [0, 1, 2, 3]
    ```
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
                "ImageProxies cannot set the proxies of this loss. Expected a tfdml model that is compiled with a loss "
                f"that has proxies='images' or proxies='hard'. Received: {type(model).__name__} with "
                f"{type(model.loss).__name__}."
            )
        if loss.classes not in (None, len(self.rows)):
            raise ValueError(
                f"labels must have the {loss.classes} classes of the loss. Received: {len(self.rows)} classes."
            )

    def begin_epoch(self, epoch, goes_on):
        # A resumed run has loaded the proxies from its checkpoint, because they are weights.
        if goes_on:
            return
        layers = self.model.loss_layers.learners
        if len(layers) != self.model.learner_count:
            raise ValueError(
                "Proxies that are features of images need one layer of the loss per learner. Received: "
                f"{self.model.name} with {len(layers)} layers for {self.model.learner_count} learners, because it "
                "merges the learners later. Use proxies='learned'."
            )
        parts = np.split(self.embed(), len(layers), axis=1)
        statistics = [self._renew(*each) for each in zip(layers, parts, strict=True)]
        self.tell("proxies", {name: np.mean([each[name] for each in statistics]) for name in statistics[0]})

    def _renew(self, layer, embeddings):
        """Assigns the proxies of a learner and returns statistics of their similarities to the images."""
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
    # The second seed makes this order independent of a partition into meta-classes with the same first seed.
    order = np.random.default_rng((seed, 1)).permutation(len(labels))
    classes, first = np.unique(labels[order], return_index=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"labels must be all integers from 0 to {len(classes) - 1}. Received: {classes[:10].tolist()} and so on. "
            "Use np.unique(labels, return_inverse=True)[1]."
        )
    return order[first]


def _similarity_of_pairs(proxies):
    """Returns the mean dot product of two different proxies, or 1 if there is only one, in linear time."""
    count, total = len(proxies), np.sum(proxies, axis=0, dtype=np.float64)
    itself = np.sum(np.square(proxies), dtype=np.float64)
    return float((total @ total - itself) / (count * (count - 1))) if count > 1 else 1.0
