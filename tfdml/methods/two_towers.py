"""A model with two towers, which embeds images and texts in one space."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Unpack

import keras
import numpy as np
from keras import ops

from tfdml import registry
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.heads import Linear
from tfdml.layers.embedding import EmbeddingHead
from tfdml.losses import ImageText, ScaleAndBias, WeightedSum
from tfdml.methods.pairs import PairedModel
from tfdml.methods.step.parts import AnyBackbone, MethodArguments, MethodHead, anchor_values
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, Tensor, either, instance, text
from tfdml.texts import TextTower

# Keys of a batch of pairs.
IMAGE, TOKENS = "image", "tokens"
# Number of texts in a batch of `embed_texts`.
TEXTS = 256


@register("method", "two_towers")
class TwoTowers(PairedModel):
    """Embedding model for images and texts: a backbone for images, a text tower, and a linear layer for each.

    Use it to search photos by words. Calling the model on images returns their embeddings `[B, embedding_size]`, so it
    evaluates, exports and searches like every other model; `embed_texts` returns embeddings of texts in the same space.

    - With the loss `tfdml.losses.ImageText`, training batches are pairs `{"image": [B, H, W, 3], "tokens": [B, L]}`,
      and `model.text.tokenizer` makes the tokens.
    - With any other loss, batches are images, and only the image tower learns, from class labels.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        text: `tfdml.texts.TextTower` or its spec. Defaults to `"small"`.
        embedding_size: Integer. Number of dimensions of the embedding. Not used without `projection`. Defaults to
            `128`.
        projection: Boolean. Whether a linear layer follows each tower. Set it to `False` if the features of both towers
            are in the same space already, as in a preset. Defaults to `True`.
        train: Which tower training changes: `"both"`, `"image"` or `"text"`. Defaults to `"both"`.
        head: One of `tfdml.heads`: the layers between the backbone and the linear layer. Defaults to
            `tfdml.heads.Linear()`, which averages over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the towers have features of different sizes and `projection` is `False`.

    Example:

    ```python
    images = np.random.uniform(-2, 2, (4, 32, 32, 3)).astype("float32")
    texts = ["a red van", "a blue van", "a red bus", "a blue bus"]
    text = tfdml.texts.SmallText(width=16, depth=1)
    model = tfdml.TwoTowers(tfdml.backbones.Small(width=4), text, embedding_size=16)
    model.compile("adam", "image_text")
    history = model.fit({"image": images, "tokens": text.tokenizer(texts)}, np.arange(4), verbose=0)
    similarities = model.embed_texts(["a red van"]) @ model.predict(images, verbose=0).T
    similarities.shape  # (1, 4)
    ```
    """

    first = IMAGE

    def __init__(
        self,
        backbone: AnyBackbone,
        text: Annotated[TextTower | str, either(text(), instance(TextTower, "a text tower"))] = "small",
        embedding_size: Count = 128,
        projection: bool = True,
        train: Literal["both", "image", "text"] = "both",
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.text = registry.create("text_tower", text) if isinstance(text, str) else text
        self.embedding_size, self.projection, self.train_towers = embedding_size, projection, train
        features = head.make_layer(name="features")
        self.head = EmbeddingHead(embedding_size, features, name="embedding") if projection else features
        self.text_head = keras.layers.Dense(embedding_size, name="text_embedding") if projection else None
        if projection:
            self.text_head.build(self.text.output_shape)
        self.text.trainable = train != "image"
        if projection:
            self.text_head.trainable = train != "image"
        if train == "text":
            self.backbone.trainable = self.head.trainable = False
        self._sees_pairs = False
        # The temperature and the bias of a saved model, which is saved without its loss.
        self._saved_with = None
        if not projection and backbone.output_shape[-1] != self.text.output_shape[-1]:
            raise ValueError(
                "Without projection, both towers must have features of the same size. Received: "
                f"{backbone.output_shape[-1]} of the backbone and {self.text.output_shape[-1]} of the text tower. Set "
                "projection=True, or use the towers of one preset."
            )

    @property
    def temperature(self) -> float | None:
        """The learned temperature of `ImageText`, or of the preset. `None` if the model has neither."""
        return self._of_similarities()[0]

    @property
    def bias(self) -> float | None:
        """The learned bias of the sigmoid loss, or of the preset. `None` if the model has neither."""
        return self._of_similarities()[1]

    def _of_similarities(self):
        for layer in self.loss_layers.learners:
            if isinstance(layer, ScaleAndBias):
                return 1 / float(layer.current_scale()), float(layer.offset) if layer.learn_bias else None
        if self._saved_with:
            return self._saved_with
        # A projection makes a new space.
        return (None, None) if self.projection else (self.text.temperature, self.text.bias)

    @property
    def takes_pairs(self) -> bool:
        """Whether training batches contain texts, as the loss that the model is compiled with determines."""
        return self._sees_pairs

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.head]

    def learning_variables(self) -> list[keras.Variable]:
        # Without texts, the text tower has no gradient, and on JAX a weight decay would shrink it.
        text = set() if self._sees_pairs else {id(each) for each in self.variable_groups()["text"]}
        return [variable for variable in self.trainable_variables if id(variable) not in text]

    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        text = [*self.text.variables, *(self.text_head.variables if self.projection else ())]
        return {**super().variable_groups(), "text": text}

    def compile(self, optimizer="adam", loss=None, *args, **kwargs):
        """Configures the model for training; see `EmbeddingModel.compile`.

        Raises:
            ValueError: If `ImageText` is part of a weighted sum.
        """
        loss = registry.create("loss", loss) if isinstance(loss, str) else loss
        if isinstance(loss, WeightedSum) and any(isinstance(term, ImageText) for _, term in loss.terms):
            raise ValueError(
                "ImageText cannot be a term of a weighted sum, because the other terms see images without texts. Use "
                "it alone."
            )
        self._sees_pairs = isinstance(loss, ImageText)
        if self._sees_pairs:
            loss = loss.starting_from(self.temperature, self.bias)
        super().compile(optimizer, loss, *args, **kwargs)

    def learner_embeddings(self, images, training=False) -> Tensor:
        if not isinstance(images, Mapping):
            return self._embed_images(images, training)[:, None]
        both = self._embed_images(images[IMAGE], training), self.embed_tokens(images[TOKENS], training)
        return ops.stack(both, axis=1)

    def _embed_images(self, images, training):
        features = self.head(self.backbone(images, training=training), training=training)
        return features if self.projection else unit_length(at_least_float32(features))

    def embed_tokens(self, tokens: Tensor, training: bool = False) -> Tensor:
        """Returns the L2-normalized embeddings `[B, embedding_size]` of texts, from their tokens `[B, L]`."""
        features = self.text(tokens, training=training)
        return unit_length(at_least_float32(self.text_head(features) if self.projection else features))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings `[N, embedding_size]` of texts, in the space of the images.

        Args:
            texts: Sequence of N strings.

        Returns:
            Float array `[N, embedding_size]` with rows of unit length.

        Raises:
            ValueError: If `texts` is a single string, or contains anything else than strings.
        """
        tokens = self.text.tokenizer(texts)
        parts = [self.embed_tokens(tokens[start : start + TEXTS]) for start in range(0, max(len(tokens), 1), TEXTS)]
        return np.concatenate([ops.convert_to_numpy(part) for part in parts])

    def loss_dims(self, learners, dim) -> list[int]:
        return [2 * dim if self._sees_pairs else dim]

    def loss_values(self, batch, learners, training=False) -> Tensor:
        if not self._sees_pairs:
            return super().loss_values(batch, learners, training)
        rows = ops.concatenate([learners[:, 0], learners[:, 1]], axis=1)
        return anchor_values(self.loss, batch["label"], self.loss_layers.inputs_of(0, batch["label"], rows))

    def seen_by_loss(self, batch, learners) -> Sequence[tuple[Tensor, Tensor, Any]]:
        return [(batch["label"], learners[:, 0], True)]

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "projection": self.projection, "train": self.train_towers}
        own |= {"temperature": self.temperature, "bias": self.bias}
        return {**super().get_config(), **own, "text": keras.saving.serialize_keras_object(self.text)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects=None):
        config = dict(config)
        saved_with = config.pop("temperature", None), config.pop("bias", None)
        text = keras.saving.deserialize_keras_object(config["text"], custom_objects=custom_objects)
        model = super().from_config({**config, "text": text}, custom_objects)
        model._saved_with = saved_with if saved_with[0] else None
        return model
