"""The flagfiles in configs/."""

import functools
from pathlib import Path

import pytest
from absl import flags as absl_flags

from tfdml import flags, registry

make_backbone = functools.cache(lambda spec: registry.create("backbone", spec))
CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.flags"))
MOST_COLUMNS = 120


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_setting_is_one_that_there_is(path, monkeypatch):
    monkeypatch.chdir(path.parents[1])
    values = absl_flags.FlagValues()
    flags.define_training(values)
    absl_flags.DEFINE_string("run_dir", "", "", flag_values=values)
    values(["train", f"--flagfile={path}"])
    for kind in ("sampler", "optimizer"):
        registry.create(kind, getattr(values, kind))
    registry.create("loss", values.loss, classes=10)
    backbone = make_backbone(values.backbone)
    options = {"backbone": backbone, "embedding_size": values.embedding_size, "freeze_batch_norm": "none"}
    registry.create("method", values.method, **options)
    for chain in (values.train_transform, values.test_transform):
        for spec in chain.split("|"):
            registry.create("transform", spec, size=values.image_size)
    assert values.dataset.partition("(")[0] in registry.names("dataset")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_says_what_it_is(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ") and max(map(len, lines)) <= MOST_COLUMNS
