"""docs/labels.md: its commands and its examples run as they stand there, with a small network and few steps."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.commands import ok
from tests.run_helpers import MODEL_FLAGS, pictures
from tests.test_docs import run_examples
from tests.test_runs_of_other_labels import tables

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[1] / "docs" / "labels.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[2:] for line in PAGE.splitlines() if line.startswith("python -m ")]
SMALL = [flag for flag in MODEL_FLAGS if not flag.startswith(("--sampler", "--train_transform"))]
# As many as the small folder has.
FEWER = {"views(images=64)": "views(images=16)", "k=10": "k=4", "(classes=8, per_class=4)": "(classes=3, per_class=4)"}
FEWER |= {"count=32": "count=8", "--clusters=20": "--clusters=4", "--dataset=toycars": "--dataset=toycars(classes=32)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, random = tmp_path_factory.mktemp("page"), np.random.default_rng(0)
    (root / "photos").mkdir()
    for number in range(40):
        pixels = Image.fromarray(random.integers(0, 256, (4, 4, 3), np.uint8)).resize((32, 32))
        pixels.save(root / "photos" / f"{number}.jpg")
    (root / "pairs.csv").write_text((tables() / "pairs.csv").read_text())
    labels = [f"photos/{n}.jpg,{'red' if n % 2 else 'blue'}|{n % 3},{'test' if n > 30 else 'train'}" for n in range(40)]
    (root / "photos.csv").write_text("\n".join(["path,label,split", *labels]))
    return root


def placed(flag, folder):
    """A flag with its files in the folder, and numbers that fit few images."""
    for whole, few in FEWER.items():
        flag = flag.replace(whole, few)
    flag = re.sub(r"(=|^)((?:photos|runs|exported|index|clusters)(?:/[\w.]+)?(?:\.parquet)?)$", rf"\1{folder}/\2", flag)
    flag = flag.replace("'photos.csv'", f"'{folder}/photos.csv'")
    return flag.replace("'pairs.csv'", f"'{folder}/pairs.csv'").replace("--dataset=" + f"{folder}/", "--dataset=")


# Those of the first chain by day: each other training is alone, and a test of its own trains so, too.
NIGHTLY = [number for number, (module, *_) in enumerate(COMMANDS) if number and module == "tfdml.train"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.nightly) if n in NIGHTLY else n for n in range(len(COMMANDS))],
    ids=[command[0] for command in COMMANDS],
)
def test_its_commands_run_one_after_another(number, folder):
    module, *flags = COMMANDS[number]
    flags = [placed(flag, folder) for flag in flags]
    if module == "tfdml.train":
        flags += [*SMALL, "--steps=2", "--eval_every=1"]
        if "toycars" in " ".join(flags):
            flags += [f"--data_dir={pictures()}", "--dataset=toycars(classes=32, images_per_class=6, image_size=24)"]
            flags += ["--sampler=pxk(classes=4, per_class=4, groups=2)"]
    ok(module, *flags)


@pytest.mark.nightly
def test_its_examples_run():
    count, names = run_examples("labels.md")
    assert count == 3 and len(names["batches"]) == 1
