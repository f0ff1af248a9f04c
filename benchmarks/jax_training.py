"""Training of one embedding on Keras' JAX backend, as `tfdml.train` does it: for a GPU without TensorFlow.

Losses, layers, networks and optimizers are tfdml's; batches are those of `pxk`, crops those of `random_resized_crop`,
and batch norm keeps its statistics. All images are on the device.
"""

from typing import NamedTuple

import jax
import keras
import numpy as np
from jax import numpy as jnp
from PIL import Image

from benchmarks.jax_batches import batches_of, crops, windows_of
from tfdml import registry
from tfdml.layers import EmbeddingHead
from tfdml.layers.loss_layer import layer_of

# Images that are embedded at once.
CHUNK = 1024


class State(NamedTuple):
    """Values of variables."""

    trained: list
    kept: list
    optimizer: list


class _Network(keras.Model):
    """Pixels `[B, H, W, 3]` to embeddings; with labels `[B]`, to the loss of a batch.

    Args:
        settings: namespace of flags of `tfdml.train`.
        classes: number of classes that train.
    """

    def __init__(self, settings, classes):
        super().__init__()
        _, method = registry.parse(settings.method)[0]
        self.backbone = registry.create("backbone", settings.backbone)
        if settings.initial_weights == "imagenet":
            self.backbone.load_imagenet()
        elif settings.initial_weights:
            self.backbone.load_weights(settings.initial_weights)
        features = registry.create("head", settings.head).make_layer()
        self.head = EmbeddingHead(settings.embedding_size, features, normalize=method.get("normalize", True))
        self.head.build(self.backbone.output_shape)
        self.objective = registry.create("loss", settings.loss, classes=classes)
        self.loss_layer = layer_of(self.objective)
        if self.loss_layer is not None:
            self.loss_layer.build((None, settings.embedding_size))
            self.loss_layer.built = True
        self.built = True

    def call(self, pixels, labels=None):
        training = labels is not None
        pixels = pixels if self.backbone.channels == "rgb" else pixels[..., ::-1]
        images = (pixels - jnp.array(self.backbone.mean)) / jnp.array(self.backbone.std)
        # Scales and offsets of the backbone's batch norm learn; its statistics stay.
        embeddings = self.head(self.backbone(images, training=False), training=training)
        if not training:
            return embeddings
        inputs = embeddings if self.loss_layer is None else self.loss_layer(embeddings, labels)
        return jnp.mean(self.objective.call(labels, inputs)) + sum(self.losses)

    def variables_of_loss(self):
        return {"loss": [] if self.loss_layer is None else self.loss_layer.variables}


class Training:
    """Training of one embedding with a loss.

    Args:
        settings: namespace of flags of `tfdml.train`, as `benchmarks.jax_train` checks them.
        split: split of a dataset, with classes from 0.
    """

    def __init__(self, settings, split):
        self.settings, self.labels = settings, np.asarray(split.labels)
        self.pixels = pixels_of(split, settings.image_size)
        keras.utils.set_random_seed(settings.seed)
        self.network = _Network(settings, split.num_classes)
        rates = {group: float(factor) for group, factor in (each.split("=") for each in settings.lr_multipliers)}
        self.optimizer = registry.create("optimizer", settings.optimizer, lr_multipliers=rates)
        self.optimizer.name_groups(self.network.variables_of_loss)
        self.optimizer.build(self.network.trainable_variables)
        self.euclidean = not self.network.head.normalize
        self._take_steps = jax.jit(self._steps)
        self._embed = jax.jit(lambda state, pixels: self.network.stateless_call(state.trained, state.kept, pixels)[0])

    def start(self):
        """Returns the `State` before training."""
        network = self.network
        groups = network.trainable_variables, network.non_trainable_variables, self.optimizer.variables
        return State(*([each.value for each in group] for group in groups))

    def plan(self):
        """Returns the rows `[steps, B]` of all batches, and the windows `[steps, B, 4]` of their crops."""
        settings = self.settings
        (_, sampler), (_, crop) = (registry.parse(spec)[0] for spec in (settings.sampler, settings.train_transform))
        rows = batches_of(self.labels, settings.steps, settings.seed, **sampler)
        return rows, windows_of(rows.shape, settings.image_size, settings.seed, **crop)

    def take_steps(self, state, rows, windows):
        """Returns the `State` after the steps of these batches, and the losses `[steps]`."""
        return self._take_steps(state, self.pixels, jnp.asarray(self.labels), rows, windows)

    def embeddings(self, state, pixels):
        """Returns embeddings `[N, d]` of pixels `[N, size, size, 3]`."""
        return jnp.concatenate([self._embed(state, pixels[at : at + CHUNK]) for at in range(0, len(pixels), CHUNK)])

    def _steps(self, state, pixels, labels, rows, windows):
        def step(state, batch):
            rows, windows = batch
            images = crops(pixels[rows], windows)

            def loss_of(trained):
                return self.network.stateless_call(trained, state.kept, images, labels[rows])

            (loss, kept), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.trained)
            trained, optimizer = self.optimizer.stateless_apply(state.optimizer, gradients, state.trained)
            return State(trained, kept, optimizer), loss

        return jax.lax.scan(step, state, (rows, windows))


def pixels_of(split, size):
    """Reads the images of a split, resized where they have another size: `[N, size, size, 3]` on the device."""
    files = (Image.open(path).convert("RGB") for path in split.images)
    files = (file if file.size == (size, size) else file.resize((size, size), Image.BILINEAR) for file in files)
    return jnp.asarray(np.stack([np.asarray(file) for file in files]))
