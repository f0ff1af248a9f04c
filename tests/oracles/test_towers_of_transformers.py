"""CLIP and SigLIP with random weights of Hugging Face's transformers: the same tokens, texts and images.

Texts with the names of special tokens, such as "</s>", are left out, because transformers reads them as these tokens.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
import torch

from tests.oracles.test_image_towers import IMAGES, SIDES, TEXT, TOWERS, VISION
from tests.oracles.test_text_towers import OF_CLIP, VOCABULARY, clip_preset, siglip_preset, towers_of, unit

transformers = pytest.importorskip("transformers", reason="transformers is not installed; the extra oracles lists it")
pytest.importorskip("tensorflow_text", reason="text towers of keras-hub need tensorflow-text")

# Their names for the arguments of both towers.
NAMES = {"num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "intermediate_dim": "intermediate_size"}
NAMES |= {"hidden_dim": "hidden_size", "vocabulary_size": "vocab_size", "patch_size": "patch_size"}
# The texts that SigLIP's vocabulary is made of have letters of several scripts.
SENTENCES = ["red car", "blue van", "ärmel über øre", "καφές", "чай", "赤い車", "a photo 🚗 of a mug"]
TEXTS = [
    "red car",
    "RED  car",
    "",
    " ",
    "\n\t",
    "z" * 300,
    "red " * 200,
    "don't  stop, it's 3.14!",
    "under_score-and-more (x) [y]",
    "Ünï 🚗",
    "🚗🚗 👩\u200d👩\u200d👧",
    "赤い車",
    "ÄRMEL ÜBER ØRE",
    "ΚΑΦΈΣ καφές",
    "ЧАЙ чай",
    "İstanbul STRASSE ß ẞ",
    "e\u0301 é ﬁ ℃ Ⅷ x²",
    "नमस्ते مرحبا",
    "a\u200bb «c» – d…",
]


def theirs(arguments, **more):
    return {**{NAMES[name]: value for name, value in arguments.items() if name in NAMES}, **more}


def array(state, name):
    return state[name].numpy()


def put_dense(layer, state, name, bias=True):
    layer.set_weights([array(state, f"{name}.weight").T, *([array(state, f"{name}.bias")] if bias else [])])


def put_norm(layer, state, name):
    layer.set_weights([array(state, f"{name}.{each}") for each in ("weight", "bias")])


def put_attention(layer, weights, biases, output, output_bias):
    """Of queries, keys and values, and of the output. Ours has the heads apart."""
    heads = layer.num_heads
    parts = []
    for weight, bias in zip(weights, biases, strict=True):
        parts += [weight.T.reshape(len(weight), heads, -1), bias.reshape(heads, -1)]
    layer.set_weights([*parts, output.T.reshape(heads, -1, len(output)), output_bias])


def put_block(attention, norms, denses, state, name):
    parts = [[array(state, f"{name}.self_attn.{each}_proj.{kind}") for each in "qkv"] for kind in ("weight", "bias")]
    output = [array(state, f"{name}.self_attn.out_proj.{kind}") for kind in ("weight", "bias")]
    put_attention(attention, *parts, *output)
    for number, (norm, dense) in enumerate(zip(norms, denses, strict=True), 1):
        put_norm(norm, state, f"{name}.layer_norm{number}")
        put_dense(dense, state, f"{name}.mlp.fc{number}")


def put_embeddings(embedding, state, name):
    """Those of positions, and of tokens or patches. In keras-hub, only a preset numbers the positions of CLIP."""
    embedding.position_embedding.set_weights([array(state, f"{name}.position_embedding.weight")])
    if hasattr(embedding, "token_embedding"):
        embedding.token_embedding.set_weights([array(state, f"{name}.token_embedding.weight")])
    else:
        kernel = array(state, f"{name}.patch_embedding.weight").transpose(2, 3, 1, 0)
        has_bias = f"{name}.patch_embedding.bias" in state
        bias = [array(state, f"{name}.patch_embedding.bias")] if has_bias else []
        embedding.patch_embedding.set_weights([kernel, *bias])
        embedding.position_ids.assign(np.arange(embedding.num_positions)[None])


def put_clip(network, state):
    vision, text = network.vision_encoder, network.text_encoder
    for encoder, name in ((vision, "vision_model"), (text, "text_model")):
        put_embeddings(encoder.embedding, state, f"{name}.embeddings")
        for number, block in enumerate(encoder.encoder_layers):
            norms, denses = (block.layer_norm_1, block.layer_norm_2), (block.dense_1, block.dense_2)
            put_block(block.attention, norms, denses, state, f"{name}.encoder.layers.{number}")
    vision.embedding.class_embedding.assign(array(state, "vision_model.embeddings.class_embedding"))
    put_norm(vision.pre_layer_norm, state, "vision_model.pre_layrnorm")
    put_norm(vision.layer_norm, state, "vision_model.post_layernorm")
    put_norm(text.layer_norm, state, "text_model.final_layer_norm")
    put_dense(network.vision_projection, state, "visual_projection", bias=False)
    put_dense(network.text_projection, state, "text_projection", bias=False)


def put_siglip(network, state):
    vision, text = network.vision_encoder, network.text_encoder
    for encoder, name in ((vision, "vision_model"), (text, "text_model")):
        put_embeddings(encoder.embedding, state, f"{name}.embeddings")
        for number, block in enumerate(encoder.encoder_layers):
            norms, denses = (block.layer_norm1, block.layer_norm2), (block.mlp.fc1, block.mlp.fc2)
            put_block(block.self_attn, norms, denses, state, f"{name}.encoder.layers.{number}")
    put_norm(vision.post_layer_norm, state, "vision_model.post_layernorm")
    put_norm(text.post_layer_norm, state, "text_model.final_layer_norm")
    put_dense(text.head, state, "text_model.head")
    name, head = "vision_model.head", vision.head
    head.probe.assign(array(state, f"{name}.probe"))
    parts = [np.split(array(state, f"{name}.attention.in_proj_{kind}"), 3) for kind in ("weight", "bias")]
    output = [array(state, f"{name}.attention.out_proj.{kind}") for kind in ("weight", "bias")]
    put_attention(head.attention, *parts, *output)
    put_norm(head.layer_norm, state, f"{name}.layernorm")
    put_dense(head.mlp.fc1, state, f"{name}.mlp.fc1")
    put_dense(head.mlp.fc2, state, f"{name}.mlp.fc2")


def randomised(network):
    """The network with weights so large that every part of it matters."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            center = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(center + 0.3 * torch.randn(parameter.shape, generator=generator))
    return network.eval()


def of_clip(folder):
    """Our model, their network, and their tokenizer."""
    text = theirs(OF_CLIP, eos_token_id=len(VOCABULARY) - 1, bos_token_id=len(VOCABULARY) - 2)
    vision = theirs(VISION, image_size=SIDES["image_shape"][0])
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, **TOWERS["CLIP"])
    network = randomised(transformers.CLIPModel(config))
    clip_preset(folder, lambda ours: put_clip(ours, network.state_dict()))
    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = transformers.CLIPTokenizer(vocab=numbers, merges=[("r", "e"), ("re", "d</w>")])
    return towers_of(folder), network, tokenizer


def of_siglip(folder):
    """Our model, their network, and their tokenizer."""
    vision = theirs(VISION, image_size=SIDES["image_shape"][0])
    config = transformers.SiglipConfig(text_config=theirs(TEXT), vision_config=vision)
    network = randomised(transformers.SiglipModel(config))
    siglip_preset(folder, SENTENCES, lambda ours: put_siglip(ours, network.state_dict()))
    (vocabulary,) = Path(folder).rglob("vocabulary.spm")
    return towers_of(folder), network, transformers.SiglipTokenizer(vocab_file=str(vocabulary))


@pytest.fixture(scope="module", params=[of_clip, of_siglip], ids=["CLIP", "SigLIP"])
def both(request, tmp_path_factory):
    return request.param(str(tmp_path_factory.mktemp("preset")))


def their_tokens(model, tokenizer):
    length = model.text.tokenizer.length
    options = {"padding": "max_length", "max_length": length, "truncation": True}
    return np.array(tokenizer(TEXTS, **options)["input_ids"])


def until_end(tokens, end):
    """The tokens up to the first end, because what follows it does not matter, and CLIP pads differently."""
    return tokens[: int(np.argmax(tokens == end)) + 1].tolist()


def test_tokens(both):
    model, _, tokenizer = both
    expected, end = their_tokens(model, tokenizer), tokenizer.eos_token_id
    assert len({tuple(row) for row in expected.tolist()}) > 12
    for text, row, wanted in zip(TEXTS, model.text.tokenizer(TEXTS), expected, strict=True):
        assert until_end(row, end) == until_end(wanted, end), text


def test_texts(both):
    model, network, tokenizer = both
    with torch.no_grad():
        expected = features(network.get_text_features(input_ids=torch.tensor(their_tokens(model, tokenizer))))
    found = model.embed_texts(TEXTS)
    np.testing.assert_allclose(found, expected, atol=5e-5)
    # Different texts differ, so that this is not a comparison of constants.
    assert np.linalg.norm(found[0] - found[3]) > 0.1


def test_images(both):
    model, network, _ = both
    images = np.random.default_rng(1).normal(size=IMAGES.shape).astype(np.float32)
    with torch.no_grad():
        expected = features(network.get_image_features(pixel_values=torch.tensor(images.transpose(0, 3, 1, 2))))
    found = keras.ops.convert_to_numpy(model(images))
    np.testing.assert_allclose(found, expected, atol=5e-5)
    assert np.linalg.norm(found[0] - found[1]) > 0.01


def features(output):
    """Rows of unit length from what a network returns."""
    return unit((output if isinstance(output, torch.Tensor) else output.pooler_output).numpy())
