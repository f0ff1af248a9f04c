"""Text towers, which embed texts in the same space as images, and their tokenizers."""

from tfdml.texts.small import SmallText
from tfdml.texts.tokenizers import ByteTokenizer, HubTokenizer, Tokenizer
from tfdml.texts.towers import HubText, TextTower, keras_hub

__all__ = ["ByteTokenizer", "HubText", "HubTokenizer", "SmallText", "TextTower", "Tokenizer", "keras_hub"]
