"""Two towers: pairs, images alone, which tower learns, files, pieces, replicas, export and search by text."""

import keras
import numpy as np
import pytest

import tfdml
from pipelines.preprocessor import Preprocessor
from tfdml.backbones import Small
from tfdml.serving import ExportedModel, export
from tfdml.texts import SmallText

TEXTS = ["a red van", "a blue van", "a red bus", "a blue bus", "a green van", "a green bus"]


@pytest.fixture
def make():
    """Function that makes a model with small towers."""

    def make(**arguments):
        text = SmallText(width=8, depth=1, heads=2, length=12)
        preprocessing = tfdml.Preprocessing(mean=(127.5,) * 3, std=(63.75,) * 3, image_size=16)
        backbone = Small(width=4, stages=2)
        arguments = {"embedding_size": 6, "freeze_batch_norm": "statistics", **arguments}
        return tfdml.TwoTowers(backbone, text, preprocessing=preprocessing, **arguments)

    return make


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(6, 16, 16, 3)).astype(np.float32)


def pairs_of(model, images):
    return {"image": images, "tokens": model.text.tokenizer(TEXTS)}


def values_of(layers):
    return [np.concatenate([weight.numpy().ravel() for weight in layer.weights]) for layer in layers]


def test_images_alone_have_the_embedding_of_their_pair(make, images):
    model = make()
    both = model(pairs_of(model, images), merged=False)
    assert both.shape == (6, 2, 6)
    np.testing.assert_allclose(model(images), both[:, 0], atol=1e-6)
    np.testing.assert_allclose(model.embed_texts(TEXTS), both[:, 1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(both, axis=2), 1.0, atol=1e-5)
    assert model.learner_count == 1 and model.embed_texts([]).shape == (0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
def test_the_step_has_the_loss_of_all_pairs(make, images, form):
    model = make()
    model.compile(keras.optimizers.SGD(0.0), f"image_text(form={form!r})")
    history = model.fit(pairs_of(model, images), np.arange(6), batch_size=6, verbose=0).history
    loss = tfdml.losses.ImageText(form=form)
    rows = np.concatenate([model(images), model.embed_texts(TEXTS)], axis=1)
    assert history["loss"][0] == pytest.approx(float(loss(np.arange(6), loss.make_layer()(rows))), rel=1e-5)


@pytest.mark.nightly
def test_pieces_take_the_same_step(make, images):
    weights = []
    for pieces in (1, 3):
        keras.utils.set_random_seed(0)
        model = make()
        model.compile(keras.optimizers.SGD(0.1), "image_text", pieces=pieces)
        model.fit(pairs_of(model, images), np.arange(6), batch_size=6, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("train, changed", [("both", [True] * 4), ("image", [True, True, False, False])])
@pytest.mark.few_by_day(1)
def test_the_towers_that_learn_from_pairs(make, images, train, changed):
    model = make(train=train)
    layers = [model.backbone, model.head, model.text, model.text_head]
    model.compile("adam", "image_text")
    model(images)
    before = values_of(layers)
    model.fit(pairs_of(model, images), np.arange(6), verbose=0)
    assert [bool(np.any(one != other)) for one, other in zip(before, values_of(layers), strict=True)] == changed


@pytest.mark.nightly
def test_only_the_text_tower_learns(make, images):
    model = make(train="text")
    layers = [model.backbone, model.head, model.text, model.text_head]
    model.compile("adam", "image_text")
    model(images)
    before = values_of(layers)
    model.fit(pairs_of(model, images), np.arange(6), verbose=0)
    changed = [bool(np.any(one != other)) for one, other in zip(before, values_of(layers), strict=True)]
    assert changed == [False, False, True, True]


def test_a_loss_on_classes_trains_the_image_tower(make, images):
    model = make()
    model.compile("adam", "contrastive")
    model(images)
    before = values_of([model.backbone, model.text])
    model.fit(images, np.array([0, 0, 1, 1, 2, 2]), verbose=0)
    changed = [bool(np.any(a != b)) for a, b in zip(before, values_of([model.backbone, model.text]), strict=True)]
    assert changed == [True, False]


def test_the_tower_that_does_not_learn_does_not_decay(make, images):
    model = make()
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=1.0), "contrastive")
    model(images)
    text = {id(each) for each in [*model.text.variables, *model.text_head.variables]}
    assert not text & {id(each) for each in model.learning_variables()} and model.learning_variables()
    model.compile("adam", "image_text")
    assert text & {id(each) for each in model.learning_variables()}


def test_the_scale_and_the_bias_stay_those_of_the_model_when_it_is_compiled_again(make, images):
    model = make()
    model.compile("adam", "image_text(form='sigmoid')")
    model(pairs_of(model, images))
    assert (model.temperature, model.bias) == (pytest.approx(0.1), pytest.approx(-10))
    model.compile("adam", "image_text(form='sigmoid', learn_temperature=False)")
    assert (model.temperature, model.bias) == (pytest.approx(0.1), pytest.approx(-10))
    model.compile("adam", "image_text(form='sigmoid', temperature=0.5, bias=-3.0)")
    assert (model.temperature, model.bias) == (pytest.approx(0.5), pytest.approx(-3))
    model.compile("adam", "image_text")
    model.compile("adam", "image_text(form='sigmoid')")
    assert (model.temperature, model.bias) == (pytest.approx(0.5), pytest.approx(-10))


def test_a_sum_is_refused(make):
    with pytest.raises(ValueError, match="ImageText cannot be a term of a weighted sum"):
        make().compile("adam", "image_text + 0.5*contrastive")


def test_without_projections_the_towers_must_fit(images):
    text = SmallText(width=8, depth=0, heads=2, length=12)
    model = tfdml.TwoTowers(Small(width=4, stages=2), text, projection=False)
    assert model(images).shape == model.embed_texts(TEXTS).shape == (6, 8)
    with pytest.raises(ValueError, match="Without projection, both towers must have features of the same size"):
        tfdml.TwoTowers(Small(width=8, stages=2), text, projection=False)


@pytest.mark.slow
def test_a_file_has_both_towers(make, images, tmp_path):
    model = make(train="image")
    model.compile("adam", "image_text")
    model.fit(pairs_of(model, images), np.arange(6), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.embed_texts(TEXTS), model.embed_texts(TEXTS))
    np.testing.assert_array_equal(loaded(images), model(images))
    assert not loaded.text.trainable
    without_loss = keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert without_loss.temperature == loaded.temperature == model.temperature != pytest.approx(0.07, rel=1e-6)
    # Further training starts with it.
    without_loss.compile("adam", "image_text")
    assert without_loss.temperature == pytest.approx(model.temperature, rel=1e-5)
    np.testing.assert_array_equal(tfdml.load(tmp_path / "model.keras").embed_texts(TEXTS), model.embed_texts(TEXTS))


@pytest.fixture
def exported(make, images, tmp_path):
    """A model and what it is after its export."""
    model = make()
    model(images)
    export(model, Preprocessor.of(model.preprocessing), tmp_path / "exported" / "1")
    return model, ExportedModel(tmp_path / "exported" / "1")


@pytest.mark.slow
@pytest.mark.few_by_day(1)
def test_an_exported_model_embeds_texts(exported):
    model, served = exported
    assert served.has_texts
    np.testing.assert_allclose(served.embed_texts(TEXTS), model.embed_texts(TEXTS), atol=1e-5)
    assert served.embed_texts([]).shape == (0, 6)


@pytest.mark.nightly
def test_an_index_is_searched_by_text(exported, tmp_path):
    model, served = exported
    files, random = [], np.random.default_rng(0)
    for number in range(6):
        files.append(str(tmp_path / f"{number}.png"))
        keras.utils.save_img(files[-1], random.integers(0, 256, (16, 16, 3)), scale=False)
    index = tfdml.Index(served)
    index.add(files)
    vectors = served.embed_readable([open(file, "rb").read() for file in files])[0]
    text = model.embed_texts(["a red van"])[0]
    (found,) = index.search(text="a red van", k=6)
    assert [each.path for each in found] == [files[row] for row in np.argsort(-vectors @ text)]
    np.testing.assert_allclose([each.similarity for each in found], -np.sort(-vectors @ text), atol=1e-5)
    # An image and a text are weighted.
    for weight in (0.0, 0.25, 1.0):
        (found,) = index.search(files[2], k=6, text="a red van", text_weight=weight)
        query = (1 - weight) * vectors[2] + weight * text
        assert [each.path for each in found] == [files[row] for row in np.argsort(-vectors @ query)]
    assert len(index.search(text=["a red van", "a bus"], k=2)) == 2


@pytest.mark.nightly
def test_what_cannot_be_searched_is_told(exported, images):
    _, served = exported
    index = tfdml.Index(served)
    index.add(vectors=np.eye(6)[:2])
    for text in ("", " ", [], ["a", ""]):
        with pytest.raises(ValueError, match="text must be one text or several, none of them empty"):
            index.search(text=text)
    with pytest.raises(ValueError, match="search.. needs images, a text, both of them, or vectors. Received: none"):
        index.search()
    with pytest.raises(ValueError, match="text_weight must be from 0 to 1"):
        index.search(np.zeros((1, 16, 16, 3), "uint8"), text="a", text_weight=1.5)
    plain = tfdml.Index(lambda images: np.eye(2)[: len(images)])
    plain.add([0, 1])
    with pytest.raises(ValueError, match="cannot be searched by text, because its model has no text tower"):
        plain.search(text="a red van")
