"""Tokenizers, which convert texts to the numbers that a text tower reads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from tfdml.backbones.borrowed import import_extra
from tfdml.registry.arguments import Count
from tfdml.registry.fields import Declared

# The keras-hub preprocessor for each network with two towers.
PREPROCESSORS = {
    "CLIPBackbone": "CLIPPreprocessor",
    "MetaCLIP2Backbone": "MetaCLIP2CausalLMPreprocessor",
    "SigLIPBackbone": "SigLIPPreprocessor",
}
# File with the name of the preprocessor.
KIND = "preprocessor.txt"
# Number of different bytes, and the padding.
BYTES = 257


class Tokenizer(Declared, keras.layers.Layer):
    """Base class of tokenizers: functions from texts to token ids `[N, length]`.

    A tokenizer is a Keras layer without weights, so that a model file contains its vocabulary. Subclass it for your own
    text tower: implement `tokens`, and `in_graph` if TensorFlow can do the same.

    Args:
        length: Integer. Number of tokens per text. Longer texts are cut, shorter ones are padded.
        **kwargs: `name` of a Keras layer.
    """

    # Whether `in_graph` only needs operations of TensorFlow itself, so that an exported model can read texts.
    is_portable = False

    def __init__(self, length: Count, **kwargs: Any):
        super().__init__(trainable=False, **kwargs)
        self.length = length
        self.built = True

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the token ids `[N, length]` of texts, int32.

        Args:
            texts: Sequence of N strings.

        Raises:
            ValueError: If `texts` is a single string, or contains anything else than strings.
        """
        if isinstance(texts, str | bytes):
            raise ValueError(f"texts must be a sequence of strings. Received: the single text {texts!r}. Pass [text].")
        texts = list(texts)
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"texts must be strings. Received: {wrong!r} of type {type(wrong).__name__}.")
        return self.tokens(texts) if texts else np.zeros((0, self.length), np.int32)

    def tokens(self, texts: list[str]) -> np.ndarray:
        """Returns the token ids `[N, length]` of N > 0 texts, int32. Subclasses must implement it."""
        raise NotImplementedError(f"{type(self).__name__} must implement tokens(texts).")

    def in_graph(self, texts: Any) -> Any:
        """Returns the token ids `[N, length]` of a TensorFlow string tensor `[N]`, for exported models."""
        raise NotImplementedError(f"{type(self).__name__} must implement in_graph(texts).")

    def save_files(self, folder: Path) -> None:
        """Writes what `load_tokenizer` needs to a new folder. Portable tokenizers need no files."""

    def compute_output_shape(self, input_shape):
        return (*input_shape[:1], self.length)

    def get_config(self):
        return {"name": self.name, "length": self.length}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@keras.saving.register_keras_serializable(package="tfdml")
class ByteTokenizer(Tokenizer):
    """Tokenizer with one token for each UTF-8 byte, which needs no vocabulary and accepts any script.

    The token of a byte is its value plus 1, and 0 is padding. ASCII letters are converted to lower case, and white
    space at both ends is removed.

    Args:
        length: Integer. Number of bytes per text. Longer texts are cut. Defaults to `64`.
        **kwargs: `name` of a Keras layer.

    Example:

    ```python
    tfdml.texts.ByteTokenizer(length=4)(["Cat"])  # [[100, 98, 117, 0]]
    ```
    """

    is_portable = True

    def __init__(self, length: Count = 64, **kwargs: Any):
        super().__init__(length, **kwargs)

    def tokens(self, texts):
        found = np.zeros((len(texts), self.length), np.int32)
        for row, text in zip(found, texts, strict=True):
            # A string from a file name may contain bytes that are not UTF-8, which Python keeps as surrogates.
            content = text.encode("utf-8", errors="surrogateescape").strip().lower()[: self.length]
            row[: len(content)] = np.frombuffer(content, np.uint8) + np.int32(1)
        return found

    def in_graph(self, texts):
        import tensorflow as tf

        # Without an encoding, only ASCII letters change, as for Python's bytes.
        texts = tf.strings.lower(tf.strings.strip(texts))
        padded = tf.io.decode_raw(texts, tf.uint8, fixed_length=self.length)
        sizes = tf.minimum(tf.strings.length(texts), self.length)
        return (tf.cast(padded, tf.int32) + 1) * tf.sequence_mask(sizes, self.length, tf.int32)


@keras.saving.register_keras_serializable(package="tfdml")
class HubTokenizer(Tokenizer):
    """Tokenizer of a keras-hub preset with two towers, with the preset's preparation of texts.

    Args:
        preprocessor: keras-hub preprocessor of CLIP, SigLIP or MetaCLIP 2, which has the tokenizer.
        **kwargs: `name` of a Keras layer.
    """

    def __init__(self, preprocessor: Any, **kwargs: Any):
        super().__init__(preprocessor.sequence_length, **kwargs)
        self.preprocessor = preprocessor
        # Only texts are prepared. The converter of images would not accept missing ones.
        preprocessor.image_converter = None

    def tokens(self, texts):
        if type(self.preprocessor).__name__ == "SigLIPPreprocessor" and self.preprocessor.canonicalize_text:
            # keras-hub only converts ASCII letters to lower case, but SigLIP was trained with all letters converted.
            texts = [text.lower() for text in texts]
        prepared = self.preprocessor({"prompts": texts, "images": None})
        return np.asarray(keras.ops.convert_to_numpy(prepared["token_ids"]), np.int32)

    def save_files(self, folder):
        self.preprocessor.save_to_preset(str(folder))
        (folder / KIND).write_text(type(self.preprocessor).__name__, encoding="utf-8")

    def get_config(self):
        return {"name": self.name, "preprocessor": keras.saving.serialize_keras_object(self.preprocessor)}

    @classmethod
    def from_config(cls, config):
        preprocessor = keras.saving.deserialize_keras_object(config["preprocessor"])
        return cls(**{**config, "preprocessor": preprocessor})


def load_tokenizer(folder: Path) -> HubTokenizer:
    """Returns the tokenizer in a folder with the files that `HubTokenizer.save_files` writes."""
    kind = (folder / KIND).read_text(encoding="utf-8")
    # The name comes from a file, and a file must not select code to run.
    if kind not in PREPROCESSORS.values():
        raise ValueError(f"{folder / KIND} must be one of {', '.join(PREPROCESSORS.values())}. Received: {kind!r}.")
    return HubTokenizer(getattr(import_extra("keras_hub").models, kind).from_preset(str(folder)))
