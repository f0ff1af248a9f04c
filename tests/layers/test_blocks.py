"""Blocks of networks: what a reader of their papers calls so."""

import keras
import pytest

import tfdml
from tfdml.layers.blocks import blocks_of


def transformer(depth=3):
    images = keras.layers.Input((16, 16, 3))
    tokens = keras.layers.Reshape((16, 8))(keras.layers.Conv2D(8, 4, strides=4, name="patches")(images))
    for number in range(depth):
        attended = keras.layers.MultiHeadAttention(2, 4, name=f"attention{number}")(tokens, tokens)
        tokens = keras.layers.Add()([tokens, attended])
        hidden = keras.layers.Dense(16, name=f"up{number}")(keras.layers.LayerNormalization()(tokens))
        tokens = keras.layers.Add()([tokens, keras.layers.Dense(8, name=f"down{number}")(hidden)])
    return keras.Model(images, keras.layers.LayerNormalization(name="last_norm")(tokens), name="transformer")


class Layer(keras.layers.Layer):
    """One of a transformer, in a class of its own, as those of keras-hub."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 4)
        self.dense = keras.layers.Dense(8)

    def build(self, shape):
        self.attention.build(shape, shape)
        self.dense.build(shape)

    def call(self, tokens):
        return tokens + self.dense(self.attention(tokens, tokens))

    def compute_output_shape(self, shape):
        return shape


def of_layers(depth=3):
    tokens = inputs = keras.layers.Input((4, 8))
    for number in range(depth):
        tokens = Layer(name=f"layer{number}")(tokens)
    return keras.Model(inputs, keras.layers.LayerNormalization(name="norm")(tokens), name="layers")


class Encoder(keras.layers.Layer):
    """Many of them and a norm in one layer, as keras-hub's vision transformers are made."""

    def __init__(self, depth, **kwargs):
        super().__init__(**kwargs)
        self.parts = [Layer(name=f"part{number}") for number in range(depth)]
        self.norm = keras.layers.LayerNormalization(name="norm")

    def build(self, shape):
        for part in (*self.parts, self.norm):
            part.build(shape)

    def call(self, tokens):
        for part in self.parts:
            tokens = part(tokens)
        return self.norm(tokens)


def encoder():
    images = keras.layers.Input((16, 16, 3))
    tokens = keras.layers.Reshape((16, 8))(keras.layers.Conv2D(8, 4, strides=4, name="patches")(images))
    return keras.Model(images, Encoder(3, name="encoder")(tokens), name="of_encoder")


def names(network):
    return [block.name for block in blocks_of([network])]


def test_stages_of_plain_convolutions_are_blocks():
    small = tfdml.backbones.Small(width=8, stages=3)
    found = blocks_of([small])
    assert len(found) == 3 and [block.name[:6] for block in found] == ["stage1", "stage2", "stage3"]


def test_residual_blocks_are_blocks():
    found = names(tfdml.backbones.ResNet(18))
    assert len(found) == 9


def test_modules_of_inception_are_blocks():
    found = names(tfdml.backbones.GoogLeNet())
    assert sum("inception" in name for name in found) == 9 and not found[0].startswith("inception")


def test_halves_of_transformer_layers_are_blocks():
    """Attention and the dense layers have a residual path each; the last norm belongs to the block before it."""
    found = blocks_of([transformer()])
    assert len(found) == 1 + 2 * 3
    assert found[-1].variables[-1].path.startswith("last_norm")


def test_layers_made_of_layers_are_blocks():
    assert names(of_layers()) == ["layer0", "layer1", "layer2"]


def test_layers_in_one_layer_are_blocks():
    found = blocks_of([encoder()])
    assert [block.name for block in found] == ["patches", "part0", "part1", "part2"]
    assert found[0].variables[0].path.startswith("patches") and found[-1].variables[-1].path.endswith("norm/beta")


def test_a_network_in_a_network_has_its_own_blocks():
    images = keras.layers.Input((32, 32, 3))
    inner = tfdml.backbones.Small(width=8, stages=3)
    outer = keras.Model(images, inner(keras.layers.Conv2D(3, 1, name="colors")(images)), name="outer")
    assert names(outer) == ["colors", *names(inner)]


MAKERS = [lambda: tfdml.backbones.Small(width=8, stages=2), lambda: tfdml.backbones.ResNet(18)]


@pytest.mark.parametrize("make", [*MAKERS, transformer, of_layers, encoder])
def test_every_trainable_variable_is_in_one_block(make):
    network = make()
    found = [id(each) for block in blocks_of([network]) for each in block.variables]
    assert len(found) == len(set(found)) and set(found) == {id(each) for each in network.trainable_variables}


def test_networks_without_blocks_are_refused():
    class Own(keras.Model):
        def call(self, images):
            return images

    one = keras.Sequential([keras.layers.Input((8, 8, 3)), keras.layers.Conv2D(4, 3)], name="one")
    for networks, told in (([], "none"), ([Own(name="own")], "own"), ([one], "one"), ([one, one], "one, one")):
        with pytest.raises(ValueError, match=f"Layer decay needs one backbone .* Received: {told}\\."):
            blocks_of(networks)
