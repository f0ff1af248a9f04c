"""The small text tower: padding changes nothing, and it is saved with its tokenizer."""

import keras
import numpy as np
import pytest

from tfdml.registry import create
from tfdml.texts import SmallText


@pytest.fixture
def tower():
    return SmallText(width=16, depth=2, heads=2, length=12)


def test_padding_changes_nothing(tower):
    longer = SmallText(width=16, depth=2, heads=2, length=20)
    shared = [weight for weight in tower.weights if "positions" not in weight.path]
    for weight, other in zip(shared, [each for each in longer.weights if "positions" not in each.path], strict=True):
        other.assign(weight)
    positions = longer.get_layer("positions").positions
    positions.assign(np.concatenate([tower.get_layer("positions").positions, np.ones((8, 16))]))
    texts = ["a red van", "bus", ""]
    found = longer(longer.tokenizer(texts))
    np.testing.assert_allclose(found, tower(tower.tokenizer(texts)), atol=1e-5)
    assert np.all(np.isfinite(found))


def test_order_and_every_byte_count(tower):
    first, second, third = tower(tower.tokenizer(["red van", "van red", "red var"])).numpy()
    assert np.abs(first - second).max() > 1e-3 and np.abs(first - third).max() > 1e-3


def test_it_is_saved_with_its_tokenizer(tower, tmp_path):
    tower.save(tmp_path / "text.keras")
    loaded = keras.models.load_model(tmp_path / "text.keras")
    texts = ["a red van", "Ünï"]
    np.testing.assert_array_equal(loaded(loaded.tokenizer(texts)), tower(tower.tokenizer(texts)))
    assert loaded.tokenizer.length == 12


@pytest.mark.slow
def test_specs_and_wrong_widths():
    assert create("text_tower", "small(width=8, heads=2, depth=0)").output_shape == (None, 8)
    with pytest.raises(ValueError, match="width must be a multiple of heads=4. Received: width=10"):
        SmallText(width=10)
