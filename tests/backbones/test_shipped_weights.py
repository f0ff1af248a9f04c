"""The pretrained weights that come with the package."""

import hashlib
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks.studies.pretrain_toycars import check_designs
from tfdml.backbones import Backbone, Small
from tfdml.backbones.small import TOYCARS
from tfdml.run.directory.model_files import load_weights

FLAGFILE = Path(__file__).parents[2] / "configs" / "toycars_pretraining.flags"


def test_the_file_is_the_one_of_the_recipe():
    recipe = json.loads(TOYCARS.with_name("small_toycars.json").read_text())
    assert hashlib.sha256(TOYCARS.read_bytes()).hexdigest() == recipe["sha256"]
    assert TOYCARS.stat().st_size <= 4e6
    assert recipe["flags"] == [line for line in FLAGFILE.read_text().splitlines() if line.startswith("--")]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_as_many_stages_as_there_are_load(stages):
    backbone, whole = Small(width=16, stages=stages), Small(width=16)
    assert "missing in the file: nothing" in load_weights(backbone, "toycars")
    load_weights(whole, "toycars")
    images = np.random.default_rng(0).normal(size=(1, 32, 32, 3)).astype("float32")
    trunk, _ = whole.split_at(f"stage{stages}")
    np.testing.assert_allclose(backbone(images), trunk(images), rtol=1e-5, atol=1e-5)
    assert np.std(backbone(images)) > 0


def test_another_width_is_told():
    with pytest.raises(ValueError, match="--initial_weights=toycars.*stage1_conv1"):
        load_weights(Small(width=8), "toycars")


def test_another_network_has_none():
    inputs = keras.Input((8, 8, 3))
    about = {"mean": (0.0,) * 3, "std": (1.0,) * 3, "image_size": 8, "name": "own"}
    network = Backbone(inputs, {"output": keras.layers.Conv2D(4, 3)(inputs)}, **about)
    with pytest.raises(FileNotFoundError, match="^--initial_weights=toycars does not exist.$"):
        load_weights(network, "toycars")
    with pytest.raises(ValueError, match="^--initial_weights=imagenet: own has no download of ImageNet weights"):
        load_weights(network, "imagenet")


def test_designs_that_comparisons_use_are_refused():
    check_designs(classes=80, seed=1)
    with pytest.raises(ValueError, match="are in use"):
        check_designs(classes=200, seed=0)
