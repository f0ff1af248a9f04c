"""Layers of Keras as steps; a stand-in plays keras-cv, which is an extra and slow to import."""

import random
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.transforms import layer as layer_module
from tests.pipelines.steps import IMAGE, apply
from tfdml import registry

SEED = tf.constant([1, 7], tf.int64)


def python_draw():
    return tf.ensure_shape(tf.py_function(random.random, [], tf.float32), [])


class Own(keras.layers.Layer):
    """Draws by a function of its own."""

    draw = None

    def call(self, images):
        return images + type(self).draw()


def step_of(spec, draw=None):
    Own.draw = staticmethod(draw)
    return registry.create("transform", spec)


@pytest.fixture(autouse=True)
def no_keras_cv(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_cv", None)


@pytest.fixture
def keras_cv(monkeypatch):
    """Layers that draw as those of keras-cv do: by a generator of TensorFlow, and by its functions."""

    class Shifted(keras.layers.Layer):
        __module__ = "keras_cv.src.layers.preprocessing.shifted"

        def __init__(self, value_range, **options):
            super().__init__(**options)
            self.value_range = value_range
            self.generator = tf.random.Generator.from_seed(3)

        def call(self, images):
            images = tf.map_fn(self.halved, images)
            drawn = self.generator.uniform([], 0, self.value_range[1] // 4) + self.generator.normal([], 0.0, 0.01)
            return images + drawn + tf.random.uniform([], maxval=0.1) + tf.random.normal([], stddev=0.01)

        def halved(self, image):
            # Read by AutoGraph, as some of theirs are.
            if tf.reduce_max(image) > 0:
                return image / 2
            return image

    class RandomHue(Shifted):
        pass

    layers = types.SimpleNamespace(Shifted=Shifted, RandomHue=RandomHue)
    monkeypatch.setitem(sys.modules, "keras_cv", types.SimpleNamespace(layers=layers))


def test_the_layer_gets_its_arguments():
    exact = "layer('RandomBrightness', factor=(0.2, 0.2))"
    np.testing.assert_allclose(apply(exact, IMAGE), np.clip(IMAGE + 51, 0, 255), atol=1e-3)


def test_it_is_the_layer_of_keras_with_other_draws():
    layer = keras.layers.RandomBrightness(0.2)
    own = [layer(np.full((1, 2, 2, 3), 100.0), training=True)[0, 0, 0, 0] - 100 for _ in range(200)]
    plain = np.full((2, 2, 3), 100.0)
    found = [apply("layer('RandomBrightness', factor=0.2)", plain, seed)[0, 0, 0] - 100 for seed in range(200)]
    assert not set(map(float, own)) & set(map(float, found))
    for each in (own, found):
        assert -51 <= min(each) < -46 and 46 < max(each) <= 51


def test_draws_depend_on_the_seed_and_not_on_how_many_came_before():
    spec = "layer('RandomHue', factor=0.5)"
    first = [registry.create("transform", spec)(IMAGE32, seed_of(seed)).numpy() for seed in range(3)]
    step = registry.create("transform", spec)
    for seed in (2, 1, 1, 0):
        np.testing.assert_array_equal(step(IMAGE32, seed_of(seed)), first[seed])
    assert len({image.tobytes() for image in first}) == 3


def test_numbers_of_pixels_and_of_layers_of_your_own_may_be_large():
    image = np.full([8, 8, 3], 70.0, np.float32)
    large = apply("layer('Normalization', mean=0.0, variance=4900.0)", image)
    np.testing.assert_allclose(large, 1.0, rtol=1e-5)
    np.testing.assert_allclose(apply("layer('Rescaling', scale=1.0, offset=-10000.0)", image), 0.0)

    @keras.saving.register_keras_serializable(package="mine")
    class Brighter(keras.layers.Layer):
        def __init__(self, by, **options):
            super().__init__(**options)
            self.by = by

        def call(self, images):
            return images + self.by

    np.testing.assert_allclose(apply("layer('mine>Brighter', by=5000)", image), 255.0)


def test_two_draws_of_a_layer_are_not_the_same():
    step = step_of("layer('RandomTranslation', height_factor=0.5, width_factor=0.5, fill_mode='constant')")
    spot = np.zeros((41, 41, 3), np.float32)
    spot[20, 20] = 255
    places = [np.argwhere(step(spot, seed_of(seed)).numpy()[..., 0] > 50).mean(axis=0) - 20 for seed in range(40)]
    down, right = np.array(places).T
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.5 and down.std() > 3 and right.std() > 3


def test_precision_of_the_network_is_not_that_of_pixels():
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        found = step_of("layer('RandomBrightness', factor=(0.21, 0.21))")(IMAGE32, SEED)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, np.clip(IMAGE + 0.21 * 255, 0, 255), atol=1e-3)


def test_layers_of_keras_cv(keras_cv):
    step = step_of("layer('Shifted')")
    found = [step(IMAGE32, seed_of(seed)).numpy() for seed in range(20)]
    again = step_of("layer('Shifted')")
    for seed in (7, 0):
        np.testing.assert_array_equal(again(IMAGE32, seed_of(seed)), found[seed])
    shifts = [np.mean(image - np.clip(IMAGE, 0, 255) / 2) for image in found]
    # From 0 to a quarter of the range (0, 255).
    assert np.std(shifts) > 8 and min(shifts) > -1 and max(shifts) < 65


def test_keras_comes_first_and_the_package_can_be_named(keras_cv):
    assert step_of("layer('RandomHue', factor=0.0)")(IMAGE32, SEED).numpy().max() > 200
    assert step_of("layer('keras_cv.RandomHue')")(IMAGE32, SEED).numpy().max() < 200


def test_a_layer_of_your_own():
    keras.saving.register_keras_serializable("mine", "Fog")(type("Fog", (keras.layers.GaussianNoise,), {}))
    assert np.any(apply("layer('mine>Fog', stddev=0.5)", IMAGE) != IMAGE)


def test_patches_end_with_the_layer():
    before = [keras.random.SeedGenerator.next, tf.random.uniform, tf.random.normal, tf.random.Generator.uniform]
    with pytest.raises(ValueError, match="1 / 0|division"):
        step_of("layer('mine>Own')", draw=lambda: 1 / 0)(IMAGE32, SEED)
    assert before == [keras.random.SeedGenerator.next, tf.random.uniform, tf.random.normal, tf.random.Generator.uniform]


@pytest.mark.parametrize(
    "spec, words",
    [
        (
            "layer('RandomHeu')",
            "Unknown layer 'RandomHeu'. Did you mean 'RandomHue'? Expected one of Keras' AutoContrast|AugMix",
        ),
        ("layer('Shifted')", "The extra keras-cv, which has more layers, is not installed"),
        ("layer('torch.RandomHue')", "Unknown layer 'torch.RandomHue'"),
        ("layer('Layer.__init__')", "Unknown layer"),
        (
            "layer('RandomHue', facter=1)",
            "has no argument 'facter'. Did you mean 'factor'\\? Its arguments are: factor",
        ),
        (
            "layer('RandomHue', factor=7)",
            "Cannot create layer\\('RandomHue'\\) with the arguments {'factor': 7}: .*range \\[0, 1\\]",
        ),
        ("layer('Resizing')", "Cannot create layer\\('Resizing'\\).*missing.*'height' and 'width'"),
        ("layer('RandomHue', factor=0.1, seed=3)", "The run's --seed decides what is drawn. Remove seed from"),
        ("layer('RandomHue', factor=0.1, dtype='float16')", "Pixels are float32. Remove dtype from"),
        ("layer('Normalization')", "has weights \\(mean, variance, count\\)"),
        ("layer('mine>Weighted')", "has weights \\(kernel\\)"),
        ("layer('MixUp')", "mixes images of a batch"),
        (
            "layer('Resizing', height=4097, width=8)",
            "height of layer\\('Resizing'\\) must be at most 4096. Received: height=4097",
        ),
        ("layer('ZeroPadding2D', padding=((0, 0), (0, 1000000000)))", "padding of .* must be at most 4096"),
        ("layer('RandAugment', num_ops=1e9)", "must be at most 4096. Received: num_ops=1000000000.0"),
        ("layer('RandomContrast', factor={1: 0, 'a': [5000]})", "must be at most 4096. Received: factor=5000"),
        (
            "layer('ZeroPadding2D', padding=1, data_format='channels_first')",
            "layer\\('ZeroPadding2D'\\) must use the data format channels_last. Remove data_format.",
        ),
    ],
)
def test_what_is_refused_when_it_is_made(spec, words):
    with pytest.raises(ValueError, match=words):
        registry.create("transform", spec)


@pytest.mark.parametrize(
    "spec",
    [
        "layer('TFSMLayer', filepath='{folder}')",
        "layer('keras.TFSMLayer', filepath='{folder}')",
        "layer('Lambda', function='print')",
        "layer('TorchModuleWrapper', module='{folder}')",
        "layer('StringLookup', vocabulary='{folder}/words.txt')",
        "layer('TextVectorization', vocabulary='{folder}/words.txt')",
        "layer('Dense', units=3)",
        "layer('tfdml>Small')",
        "layer('tfdml>Pooling')",
        "layer('keras_cv.Saved', path='{folder}')",
        "layer('keras_hub>Tokens', path='{folder}')",
    ],
)
def test_a_spec_names_no_layer_that_reads_files_or_runs_code(spec, keras_cv, tmp_path):
    class Saved(keras.layers.Layer):
        def __init__(self, path):
            raise AssertionError("A layer of a spec was made.")

    sys.modules["keras_cv"].layers.Saved = type("Saved", (Saved,), {"__module__": "keras_cv.src.layers.saved"})
    keras.saving.register_keras_serializable("keras_hub", "Tokens")(
        type("Tokens", (Saved,), {"__module__": "keras_hub.src.tokenizers"})
    )
    (tmp_path / "words.txt").write_text("secret\n")
    with pytest.raises(ValueError, match="is not a layer that only processes images"):
        registry.create("transform", spec.format(folder=tmp_path))


def test_a_file_runs_no_other_program_through_its_preprocessing(tmp_path):
    """A SavedModel beside it, which its transform names, is not loaded."""
    saved = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.ReLU()])
    saved.export(tmp_path / "saved", verbose=False)
    backbone = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
    model = tfdml.Single(backbone, embedding_size=2, preprocessing=tfdml.Preprocessing(8, "warp"))
    model(np.zeros((1, 8, 8, 3), np.float32))
    model.preprocessing = tfdml.Preprocessing(8, f"warp|layer('TFSMLayer', filepath='{tmp_path}/saved')")
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"layer\('TFSMLayer'\) is not a layer that only processes images"):
        tfdml.load(tmp_path / "model.keras")


def chain_on(shape, spec):
    """A function that applies a chain to one image, in a graph that knows this shape."""

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32)], autograph=False)
    def apply_all(image):
        for step in registry.create_chain("transform", spec, size=8):
            image = step(image, SEED)
        return image

    return apply_all


# What makes of an image of 40 × 30 pixels first 80 × 70 and then more.
TWICE = "layer('ZeroPadding2D', padding=20)|layer('{name}', {arguments})"
GROWING = [
    ("ZeroPadding2D", "padding=20", (120, 110)),
    ("UpSampling2D", "size=2", (160, 140)),
    ("mine>Twice", "", (160, 140)),
]


@pytest.mark.parametrize("name, arguments, sides", GROWING)
@pytest.mark.parametrize("shape", [(40, 30, 3), (None, None, 3)])
def test_a_chain_of_layers_makes_no_image_above_the_bound(name, arguments, sides, shape, monkeypatch):
    """Whether the shape is known when the graph is made, or only when it runs."""
    spec = TWICE.format(name=name, arguments=arguments)
    monkeypatch.setattr(layer_module, "MOST_PIXELS", sides[0] * sides[1])
    assert chain_on(shape, spec)(IMAGE32).shape == (*sides, 3)
    monkeypatch.setattr(layer_module, "MOST_PIXELS", sides[0] * sides[1] - 1)
    told = f"'{name}.{{1,2}}\\) works with images of at most {sides[0] * sides[1] - 1:,} pixels"
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=told):
        chain_on(shape, spec)(IMAGE32)


@pytest.mark.parametrize("shape", [(40, 30, 3), (None, None, 3)])
def test_an_image_that_is_padded_before_it_is_resized_is_bounded(shape, monkeypatch):
    spec = "layer('Resizing', height=8, width=1, pad_to_aspect_ratio=True)"
    monkeypatch.setattr(layer_module, "MOST_PIXELS", 240 * 30)
    assert chain_on(shape, spec)(IMAGE32).shape == (8, 1, 3)
    monkeypatch.setattr(layer_module, "MOST_PIXELS", 240 * 30 - 1)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="images of at most 7,199 pixels"):
        chain_on(shape, spec)(IMAGE32)


def test_layers_that_would_take_gigabytes_are_refused_before_they_run():
    """Four times 4,000 pixels on each side would take 12 GB, and one thin image that is made square 50 GB."""
    with pytest.raises(ValueError, match=r"at most 100,000,000 pixels, .* would make 257,024,960\."):
        chain_on([40, 24, 3], "|".join(["layer('ZeroPadding2D', padding=4000)"] * 4)).get_concrete_function()
    square = "layer('Resizing', height=8, width=8, pad_to_aspect_ratio=True)"
    with pytest.raises(ValueError, match="at most 100,000,000 pixels, .* would make 4,225,000,000"):
        chain_on([65000, 1500, 3], square).get_concrete_function()


@pytest.mark.parametrize("name", layer_module.HEAVY)
def test_layers_that_take_more_memory_take_smaller_images(name, monkeypatch):
    monkeypatch.setattr(layer_module, "MOST_PIXELS", 1200 * layer_module.HEAVY[name] - 1)
    with pytest.raises(ValueError, match=f"layer.'{name}'.* at most 1,199 pixels"):
        step_of(f"layer('{name}')")(IMAGE32, SEED)


def test_the_bound_does_not_overflow(monkeypatch):
    """The sides of the image that is padded have a product above 2^63."""
    made = keras.layers.Resizing(4096, 1, pad_to_aspect_ratio=True)
    sides = [tf.constant(side, tf.float64) for side in (1, 10**8)]
    assert float(layer_module._most_pixels(made, *sides, tf.maximum)) == pytest.approx(4096e16)


@pytest.mark.parametrize(
    "spec, draw, words",
    [
        ("layer('mine>Own')", random.random, "draws random numbers in Python"),
        ("layer('mine>Own')", np.random.rand, "draws random numbers in Python"),
        ("layer('mine>Own')", lambda: tf.random.gamma([], 1.0), "its own state \\(RandomGamma\\)"),
        ("layer('mine>Own')", python_draw, "its own state \\(EagerPyFunc"),
        ("layer('AugMix')", None, "draws random numbers in Python"),
        ("layer('Flatten')", None, r"shape \(1, height, width, 3\) for one image. Received: \(1, 3600\)"),
        ("layer('Reshape', target_shape=(7,))", None, r"fails for an image of shape \(40, 30, 3\): The total size"),
    ],
)
def test_what_is_refused_when_it_sees_an_image(spec, draw, words):
    step = step_of(spec, draw)
    # Not only the first time.
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            step(IMAGE32, SEED)


IMAGE32 = tf.constant(IMAGE, tf.float32)
keras.saving.register_keras_serializable("mine")(Own)


@keras.saving.register_keras_serializable("mine")
class Twice(keras.layers.Layer):
    """Doubles both sides, and does not say so."""

    def call(self, images):
        return tf.repeat(tf.repeat(images, 2, axis=1), 2, axis=2)


@keras.saving.register_keras_serializable("mine")
class Weighted(keras.layers.Layer):
    """Has weights."""

    def build(self, input_shape):
        self.add_weight(name="kernel")


def seed_of(seed):
    return tf.constant([seed, 7], tf.int64)
