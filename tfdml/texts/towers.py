"""The base class of text towers, and the text tower of keras-hub presets."""

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Unpack

import keras

from tfdml.backbones.borrowed import import_extra, load_preset
from tfdml.layers.norms import layers_in
from tfdml.registry import register
from tfdml.registry.arguments import ModelArguments, Tensor, Text
from tfdml.registry.fields import Declared
from tfdml.texts.tokenizers import PREPROCESSORS, HubTokenizer, Tokenizer


class TextTower(Declared, keras.Model):
    """Functional Keras model from token ids `[B, length]` to features `[B, c]`, with its tokenizer.

    `tfdml.TwoTowers` maps its features and the features of an image backbone to one space.

    Args:
        tokenizer: `tfdml.texts.Tokenizer`. It is saved with the model.
        inputs: Keras input `[B, length]`, int32.
        output: Keras tensor `[B, c]`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.
    """

    # Whether the tower has pretrained weights.
    pretrained = False
    # The temperature and the bias of the network that the tower is part of, if they are known.
    temperature, bias = None, None

    def __init__(self, tokenizer: Tokenizer, inputs: Tensor, output: Tensor, **kwargs: Unpack[ModelArguments]):
        kwargs.pop("dtype", None)
        super().__init__(inputs=inputs, outputs=output, **kwargs)
        self.tokenizer = tokenizer

    def get_config(self):
        return {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        del custom_objects
        with layers_in(config.get("dtype")):
            return cls(**config)


@keras.saving.register_keras_serializable(package="tfdml")
class HubText(TextTower):
    """Text tower of a keras-hub network with two towers: CLIP, SigLIP or MetaCLIP 2.

    `tfdml.texts.keras_hub` creates it from a preset. Its features are in the preset's space of images and texts.
    They have any length.

    Args:
        encoder: Keras network from token ids to features, or its configuration.
        tokenizer: `tfdml.texts.HubTokenizer`, or its configuration.
        temperature: Float or `None`. Temperature of the network, by which it divides similarities. Defaults to `None`.
        bias: Float or `None`. Number that the network adds to them, or `None` without one. Defaults to `None`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.
    """

    pretrained = True

    def __init__(
        self,
        encoder: keras.Model | Mapping[str, Any],
        tokenizer: HubTokenizer | Mapping[str, Any],
        temperature: float | None = None,
        bias: float | None = None,
        **kwargs: Unpack[ModelArguments],
    ):
        if isinstance(encoder, Mapping):
            import_extra("keras_hub")
            encoder, tokenizer = map(keras.saving.deserialize_keras_object, (encoder, tokenizer))
        super().__init__(tokenizer, encoder.inputs[0], encoder.outputs[0], **{"name": "text", **kwargs})
        self.temperature, self.bias = temperature, bias
        # The config has no weights, because they are saved as weights of this model.
        self.encoder_config = keras.saving.serialize_keras_object(encoder)

    def get_config(self):
        tokenizer = keras.saving.serialize_keras_object(self.tokenizer)
        own = {"encoder": self.encoder_config, "temperature": self.temperature, "bias": self.bias}
        return {**super().get_config(), **own, "tokenizer": tokenizer}


# tensorflow-text requires `tensorflow`, which must not be installed over `tensorflow-cpu`.
INSTALL_TEXT = "Run: pip install --no-deps 'tensorflow-text~=2.21.0'."


@register("text_tower", "keras_hub")
def keras_hub(preset: Text) -> HubText:
    """Creates the text tower of a keras-hub preset with two towers, such as CLIP or SigLIP, with its weights.

    It needs the extra `hub`. Use it with the image tower of the same preset:
    `tfdml.backbones.keras_hub(preset, features="shared")`.

    Args:
        preset: String. Name of a preset, or path of a local folder.

    Returns:
        `tfdml.texts.HubText`.

    Raises:
        ImportError: If keras-hub is not installed.
        OSError: If the preset cannot be loaded.
        ValueError: If the preset has no text tower.

    For example, `tfdml.texts.keras_hub("siglip2_base_patch16_224")` downloads the text tower of SigLIP 2.
    """
    package = import_extra("keras_hub")
    if find_spec("tensorflow_text") is None:
        raise ImportError(f"Text towers of keras_hub need tensorflow-text. {INSTALL_TEXT}")
    whole = load_preset("keras_hub", preset, lambda: package.models.Backbone.from_preset(preset))
    if type(whole).__name__ not in PREPROCESSORS:
        raise ValueError(
            f"keras_hub(preset={preset!r}) has no text tower. Expected a preset with two towers, such as CLIP, SigLIP "
            f"or MetaCLIP 2. Received: {type(whole).__name__}."
        )
    kind = getattr(package.models, PREPROCESSORS[type(whole).__name__])
    preprocessor = load_preset("keras_hub", preset, lambda: kind.from_preset(preset))
    tokens = keras.Input((preprocessor.sequence_length,), dtype="int32", name="tokens")
    encoder = keras.Model(tokens, whole.get_text_embeddings(tokens))
    learned = {variable.name: float(variable) for variable in whole.variables if variable.name.startswith("logit_")}
    temperature, bias = math.exp(-learned["logit_scale"]), learned.get("logit_bias")
    return HubText(encoder, HubTokenizer(preprocessor), temperature, bias)
