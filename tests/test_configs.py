"""The flagfiles in configs/."""

import functools
import inspect
from pathlib import Path

import pytest
from absl import flags as absl_flags

from tests.night import others_at_night
from tfdml import registry
from tfdml.backbones.borrowed import keras_hub
from tfdml.console import flags
from tfdml.losses.proxy_base import ImageProxyLoss, ProxyLoss
from tfdml.run.training.optimizer import parse_multipliers

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.flags"))
BY_DAY = ("cars_8heads_attention", "cars_8tails", "cars_abe", "cars_dnc", "cars_dreml", "cars_edms", "cars_half")
BY_DAY += ("cars_hdc", "cars_hyp_dino", "cars_lifted", "cars_pfml", "cars_recall", "cars_rll", "cub_edms_intrinsic")
BY_DAY += ("cub_edms_manifold_n_pair", "cub_rll_dynamic", "cub_dnc_proxy_nca", "emoji_text", "market1501_dnc")
BY_DAY += ("quickstart_bfloat16", "toycars_pretraining", "toycars_text", "toycars_rll_gallery")
DIVIDED = [path for path in CONFIGS if "_dnc" in path.stem and not path.stem.startswith("toycars")]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Flagfiles name others from there."""
    monkeypatch.chdir(CONFIGS[0].parents[1])


@functools.cache
def settings_of(path):
    values = absl_flags.FlagValues()
    flags.define_training(values)
    absl_flags.DEFINE_string("run_dir", "", "", flag_values=values)
    values(["train", f"--flagfile={path}"])
    return values


@functools.cache
def make_backbone(spec):
    """Makes a backbone, or checks the arguments of one that would be downloaded, and makes another."""
    name, arguments = registry.parse(spec)[0]
    if name != "keras_hub":
        return registry.create("backbone", spec)
    inspect.signature(keras_hub).bind(**arguments)
    return registry.create("backbone", "small")


@functools.cache
def make_method(spec, backbone, embedding_size):
    """Makes a method, once for all recipes that have the same but for more than two learners."""
    options = {"backbone": make_backbone(backbone), "embedding_size": embedding_size, "freeze_batch_norm": "none"}
    registry.create("method", spec, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    # Configurations of the other datasets and variants of a paper are for the nights.
    others_at_night(CONFIGS, lambda path: path.stem in BY_DAY or "_" not in path.stem),
    ids=lambda path: path.stem,
)
def test_every_setting_is_one_that_there_is(path):
    values = settings_of(path)
    # A run makes the sampler for `auto`.
    for kind in ("sampler",) * (values.sampler != "auto") + ("optimizer",):
        registry.create(kind, getattr(values, kind))
    for kind in ("head", "protocol"):
        spec = getattr(values, kind)
        assert not spec or registry.create(kind, spec)
    registry.create("schedule", values.schedule, learning_rate=0.1, steps_per_epoch=2, epochs=3)
    parse_multipliers(values.lr_multipliers)
    registry.create("loss", values.loss, classes=10)
    learners = registry.parse(values.method)[0][1].get("learners", 1)
    assert values.embedding_size % learners == 0
    # Each of many learners may have a copy of a large network.
    method = values.method.replace(f"learners={learners}", f"learners={min(learners, 2)}")
    make_method(method, values.backbone, values.embedding_size // learners * min(learners, 2))
    for chain in (values.train_transform, values.test_transform):
        for spec in chain.split("|"):
            registry.create("transform", spec, size=values.image_size or 224)
    assert values.dataset.partition("(")[0] in registry.names("dataset")


def test_proxies_learn_fast_enough_to_leave_where_they_began():
    """They begin with numbers of about 0.05, and only their directions matter."""
    rates = {}
    for path in CONFIGS:
        values = settings_of(path)
        loss = registry.create("loss", values.loss, classes=10)
        images = isinstance(loss, ImageProxyLoss) and not loss.learns_proxies
        if isinstance(loss, ProxyLoss) and not images:
            rate = float(registry.create("optimizer", values.optimizer).learning_rate)
            rates[path.stem] = rate * parse_multipliers(values.lr_multipliers).get("loss", 1.0)
    assert {"cub_dnc_proxy_nca", "toycars_pretraining"} <= rates.keys()
    assert all(1e-4 < rate < 2e-2 for rate in rates.values()), rates


@pytest.mark.parametrize("path", DIVIDED, ids=lambda path: path.stem)
def test_the_embedding_layer_is_fine_tuned_at_the_end_as_the_paper_says(path):
    _, arguments = registry.parse(settings_of(path).method)[0]
    finetune = "all" if path.stem.endswith("authors") else "embedding"
    # The paper says how long it trains on SOP, Sec. 4.4.
    epochs = 80 if path.stem == "sop_dnc" else 200
    assert settings_of(path).epochs == epochs and arguments["merge_at"] == epochs - 10
    assert arguments.get("finetune", "all") == finetune
