"""Contrastive loss of images and their texts."""

import math
from typing import Annotated, Literal, Self

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, check_class_numbers, check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.layers.loss_layer import LossLayer
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, Tensor, number

# The initial temperatures of CLIP and of SigLIP.
TEMPERATURES = {"softmax": 0.07, "sigmoid": 0.1}
# The initial bias of SigLIP.
BIAS = -10.0
# CLIP limits the scale, because training becomes unstable with larger ones.
LARGEST_SCALE = 100.0


@register("loss", "image_text")
class ImageText(EmbeddingLoss):
    """Computes the contrastive loss of CLIP or SigLIP: each image is most similar to its own text, and vice versa.

    A row is an image and its text. `c_ij` is the cosine of image i and text j, and `s_ij = c_ij / t` with temperature
    t. The positives P(i) of image i are the texts of the rows with the same label, which include its own text.

    - `softmax` is the loss of Radford et al., "Learning Transferable Visual Models From Natural Language Supervision",
      2021. The loss of image i is the mean over p in P(i) of `log(sum_j exp(s_ij)) - s_ip`. The loss of a row is the
      mean of the losses of its image among all texts and of its text among all images.
    - `sigmoid` is the loss of Zhai et al., "Sigmoid Loss for Language Image Pre-Training", 2023. The loss of row i is
      `sum_j log(1 + exp(-z_ij (s_ij + b)))`, where `z_ij` is 1 for positives and -1 for others, and b is a learned
      bias.

    The papers have one positive per row. Labels show which texts are equal: without them, two images of one class with
    the text "a photo of a mug" would repel each other's text. If every row is different, use different labels.

    The temperature and the bias are variables of the layer that `make_layer` returns. `tfdml.TwoTowers` creates this
    layer. In plain Keras, the model ends with it, `outputs = loss.make_layer()(embeddings)`.

    Use large batches, because the other rows of the batch are the negatives. `--pieces` makes them fit into memory.

    Args:
        form: `"softmax"` or `"sigmoid"`. Defaults to `"softmax"`.
        temperature: Float or `None`. Initial temperature t. If `None`, it is the temperature that the model was trained
            with before, as in a preset. For a new model, it is 0.07 for softmax and 0.1 for sigmoid, as in the papers.
            Defaults to `None`.
        learn_temperature: Boolean. Whether to learn the temperature, which never falls below 0.01. Defaults to `True`.
        bias: Float or `None`. Initial bias b, which only sigmoid uses. If `None`, it is the bias that the model was
            trained with before, or -10 for a new model. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer labels. Rows with equal labels have equal texts.
        embeddings: the output `[B, 1, 2 * d + 2]` of the layer, which receives the embeddings of an image and of its
            text, concatenated to `[B, 2 * d]`. They can have any length.

    Returns:
        `[B]`, one loss per row.

    Raises:
        ValueError: If the embeddings do not have an even number of dimensions.

    Example:

    ```python
    images = np.array([[1, 0], [0, 1]], "float32")
    texts = np.array([[0.8, 0.6], [0.6, 0.8]], "float32")
    loss = tfdml.losses.ImageText(temperature=0.5)
    rows = loss.make_layer()(np.concatenate([images, texts], axis=1))
    loss(np.array([0, 1]), rows)  # 0.513
    ```
    """

    form: Literal["softmax", "sigmoid"] = "softmax"
    temperature: Positive | None = None
    learn_temperature: bool = True
    bias: Annotated[float, number()] | None = None

    needs_pairs = False
    has_statistics = False
    refuses_memory = "it compares images with texts, of which the memory has none"

    def check_arguments(self):
        if self.form == "softmax":
            self.warn_of_unused(["bias"], "form")

    def make_layer(self):
        temperature = self.temperature or TEMPERATURES[self.form]
        bias = (BIAS if self.bias is None else self.bias) if self.form == "sigmoid" else 0.0
        return ScaleAndBias(1 / temperature, bias, self.learn_temperature, self.form == "sigmoid")

    def starting_from(self, temperature: float | None, bias: float | None) -> Self:
        """Returns this loss with the temperature and the bias of a trained model, unless its arguments set them."""
        initial = {"temperature": temperature, "bias": bias if self.form == "sigmoid" else None}
        missing = {name: value for name, value in initial.items() if getattr(self, name) is None}
        return type(self).from_config({**self.get_config(), **missing})

    def check_input(self, labels, embeddings):
        embeddings = ops.convert_to_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != 1 or embeddings.shape[2] % 2:
            raise ValueError(
                "ImageText needs the output of its layer ScaleAndBias. Expected shape [batch, 1, 2 * dim + 2]. "
                f"Received: shape={tuple(embeddings.shape)}. End the model that you train with this layer: "
                "loss.make_layer()(embeddings). Pass it the concatenated embeddings of images and texts."
            )
        labels, rows = check_pairs_input(labels, embeddings[:, 0])
        check_class_numbers(labels)
        return labels, rows[:, None]

    def call(self, labels, embeddings):
        labels, embeddings = self.check_input(labels, embeddings)
        images, texts = ops.split(embeddings[:, 0, :-2], 2, axis=1)
        scale, bias = embeddings[0, 0, -2], embeddings[0, 0, -1]
        logits = scale * ops.matmul(unit_length(images), ops.transpose(unit_length(texts))) + bias
        same = labels[:, None] == labels[None, :]
        if self.form == "sigmoid":
            signs = ops.where(same, 1.0, -1.0)
            return ops.sum(ops.softplus(-ops.cast(signs, logits.dtype) * logits), axis=1)
        positives = ops.cast(same, logits.dtype)
        positives = positives / ops.sum(positives, axis=1, keepdims=True)
        of_images = ops.logsumexp(logits, axis=1) - ops.sum(positives * logits, axis=1)
        of_texts = ops.logsumexp(logits, axis=0) - ops.sum(ops.transpose(positives) * logits, axis=0)
        return (of_images + of_texts) / 2

    def statistics(self, labels, embeddings):
        """Returns no statistics, because every row has a loss."""
        del labels, embeddings
        return {}


@keras.saving.register_keras_serializable(package="tfdml")
class ScaleAndBias(LossLayer):
    """Adds a learned scale and a learned bias to embeddings, the input of `tfdml.losses.ImageText`.

    Args:
        scale: Float. Initial scale, 1 divided by the temperature. Defaults to `1.0`.
        bias: Float. Initial bias. Defaults to `0.0`.
        learn_scale: Boolean. Whether to learn the scale, up to 100. Defaults to `True`.
        learn_bias: Boolean. Whether to learn the bias. Defaults to `False`.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Call arguments:
        embeddings: `[B, n]`.
        labels: Not used.

    Returns:
        `[B, 1, n + 2]`: the embeddings, the scale and the bias.

    Example:

    ```python
    tfdml.losses.ScaleAndBias(scale=10.0)(np.zeros((1, 2), "float32"))  # [[[0, 0, 10, 0]]]
    ```
    """

    scale: Positive = 1.0
    bias: float = 0.0
    learn_scale: bool = True
    learn_bias: bool = False

    # Models pass their values to the loss, which may set others; see `ImageText.starting_from`.
    keeps_values = False

    def build(self, embeddings_shape, labels_shape=None):
        def variable(name, value, trainable):
            initializer = keras.initializers.Constant(value)
            return self.add_weight(name=name, shape=(), initializer=initializer, trainable=trainable, autocast=False)

        self.log_scale = variable("log_scale", math.log(self.scale), self.learn_scale)
        self.offset = variable("offset", self.bias, self.learn_bias)

    def current_scale(self) -> Tensor:
        """Returns the learned scale."""
        return ops.exp(ops.minimum(self.log_scale, max(math.log(LARGEST_SCALE), math.log(self.scale))))

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(ops.convert_to_tensor(embeddings))
        scale = ops.reshape(self.current_scale(), (1,))
        more = ops.cast(ops.concatenate([scale, ops.reshape(self.offset, (1,))]), embeddings.dtype)
        more = ops.broadcast_to(more, (ops.shape(embeddings)[0], 2))
        return ops.concatenate([embeddings, more], axis=1)[:, None]

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, embeddings_shape[1] + 2)
