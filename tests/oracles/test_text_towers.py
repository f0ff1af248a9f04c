"""Text towers of keras-hub, with random weights: as keras-hub itself, saved and trained."""

import io
import math

import keras
import numpy as np
import pytest

import tfdml
from tests.oracles.test_image_towers import IMAGES, SIDES, TEXT, TOWERS, VISION
from tfdml.registry import create

pytest.importorskip("tensorflow_text", reason="text towers of keras-hub need tensorflow-text")

TEXTS = ["red car", "", "z" * 300, "Ünï 🚗", "RED  car", "赤い車"]
# The characters that stand for bytes in vocabularies of CLIP: printable ones for themselves, the others from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = sorted(set(range(256)) - set(PRINTABLE))
LETTERS = [chr(byte) if byte in PRINTABLE else chr(256 + OTHERS.index(byte)) for byte in range(256)]
VOCABULARY = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "re", "red</w>", "<|startoftext|>", "<|endoftext|>"]
OF_CLIP = {**TEXT, "vocabulary_size": len(VOCABULARY)}


def converter():
    from keras_hub.layers import ImageConverter

    return ImageConverter(image_size=(32, 32), scale=1 / 50, offset=-2.0)


def clip_preset(folder, put_weights=None):
    """Writes a preset of CLIP with random weights and a vocabulary of letters, and returns its network."""
    from keras_hub import models

    vision, text = models.CLIPVisionEncoder(**VISION, **SIDES), models.CLIPTextEncoder(**OF_CLIP)
    network = models.CLIPBackbone(vision_encoder=vision, text_encoder=text, **TOWERS["CLIP"])
    if put_weights is not None:
        put_weights(network)
    network.save_to_preset(folder)
    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = models.CLIPTokenizer(vocabulary=numbers, merges=["r e", "re d</w>"])
    models.CLIPPreprocessor(tokenizer, image_converter=converter()).save_to_preset(folder)
    return network


SENTENCES = ["red car", "blue van", "green bus", "a photo of a mug"]


def siglip_preset(folder, sentences=SENTENCES, put_weights=None):
    """Writes a preset of SigLIP with random weights and a small SentencePiece model, and returns its network."""
    sentencepiece = pytest.importorskip("sentencepiece")
    from keras_hub import models

    vision, text = models.SigLIPVisionEncoder(**VISION, **SIDES), models.SigLIPTextEncoder(**TEXT)
    network = models.SigLIPBackbone(vision_encoder=vision, text_encoder=text)
    if put_weights is not None:
        put_weights(network)
    network.save_to_preset(folder)
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*sentences] * 20),
        model_writer=proto,
        vocab_size=40 if sentences == SENTENCES else 60,
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
        model_type="unigram",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        pad_piece="<pad>",
        eos_piece="</s>",
        unk_piece="<unk>",
    )
    tokenizer = models.SigLIPTokenizer(proto=proto.getvalue())
    models.SigLIPPreprocessor(tokenizer, image_converter=converter()).save_to_preset(folder)
    return network


PRESETS = {"CLIP": clip_preset, "SigLIP": siglip_preset}


@pytest.fixture(params=PRESETS)
def preset(request, tmp_path):
    """The folder of a preset and its network."""
    return str(tmp_path), PRESETS[request.param](str(tmp_path))


def towers_of(folder):
    backbone = create("backbone", f"keras_hub(preset={folder!r}, features='shared')")
    return tfdml.TwoTowers(backbone, f"keras_hub(preset={folder!r})", projection=False)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_embeddings_are_those_of_keras_hub(preset):
    folder, network = preset
    model = towers_of(folder)
    tokens = model.text.tokenizer(TEXTS)
    np.testing.assert_allclose(model(IMAGES), unit(network.get_vision_embeddings(IMAGES)), atol=1e-5)
    np.testing.assert_allclose(model.embed_texts(TEXTS), unit(network.get_text_embeddings(tokens)), atol=1e-5)
    # The first and the fifth text only differ in capitals and white space.
    assert np.array_equal(tokens[0], tokens[4]) and not np.array_equal(tokens[0], tokens[3])


def test_a_saved_model_has_its_vocabulary(preset, tmp_path):
    model = towers_of(preset[0])
    model(IMAGES)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.embed_texts(TEXTS), model.embed_texts(TEXTS), atol=1e-6)
    np.testing.assert_allclose(loaded(IMAGES), model(IMAGES), atol=1e-6)


@pytest.mark.parametrize("train", ["both", "image", "text"])
def test_only_the_chosen_towers_learn(preset, train):
    folder, _ = preset
    backbone = create("backbone", f"keras_hub(preset={folder!r}, features='shared')")
    model = tfdml.TwoTowers(backbone, f"keras_hub(preset={folder!r})", projection=False, train=train)
    model.compile("adam", "image_text(form='sigmoid')")
    model(IMAGES)
    before = [np.concatenate([w.numpy().ravel() for w in tower.weights]) for tower in (backbone, model.text)]
    pairs = {"image": IMAGES, "tokens": model.text.tokenizer(TEXTS[: len(IMAGES)])}
    model.fit(pairs, np.arange(len(IMAGES)), verbose=0)
    after = [np.concatenate([w.numpy().ravel() for w in tower.weights]) for tower in (backbone, model.text)]
    changed = [bool(np.any(first != second)) for first, second in zip(before, after, strict=True)]
    assert changed == [train != "text", train != "image"]


def test_training_starts_with_the_temperature_of_the_preset(tmp_path):
    def put_weights(network):
        (head,) = [layer for layer in network.layers if hasattr(layer, "logit_scale")]
        head.logit_scale.assign(3.0)
        if hasattr(head, "logit_bias"):
            head.logit_bias.assign(-4.0)

    for name, bias in {"CLIP": None, "SigLIP": -4.0}.items():
        PRESETS[name](str(tmp_path / name), put_weights=put_weights)
        model = towers_of(str(tmp_path / name))
        model(IMAGES)
        assert model.temperature == pytest.approx(math.exp(-3), rel=1e-5) and model.bias == bias
        model.save(tmp_path / "model.keras")
        assert keras.models.load_model(tmp_path / "model.keras").temperature == model.temperature
        for form, expected in {"sigmoid": bias or -10.0, "softmax": None}.items():
            model.compile("adam", f"image_text(form={form!r})")
            assert model.temperature == pytest.approx(math.exp(-3), rel=1e-5) and model.bias == expected
        model = towers_of(str(tmp_path / name))
        model(IMAGES)
        model.compile("adam", "image_text(form='sigmoid', temperature=0.2, bias=-1.0)")
        assert model.temperature == pytest.approx(0.2) and model.bias == -1.0


def test_a_preset_with_one_tower_is_told(tmp_path):
    from tests.oracles.test_image_towers import preset_of

    preset_of("ViT", str(tmp_path))
    with pytest.raises(ValueError, match="has no text tower. Expected a preset with two towers"):
        create("text_tower", f"keras_hub(preset={str(tmp_path)!r})")
    with pytest.raises(ValueError, match="features='shared' needs a preset with two towers"):
        create("backbone", f"keras_hub(preset={str(tmp_path)!r}, features='shared')")
