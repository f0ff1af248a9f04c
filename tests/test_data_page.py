"""docs/data.md leads from a folder of photos, and from a table, to a model that is trained and measured."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from pipelines.datasets import load
from tests.commands import ROOT, assert_one_error, ok, run
from tests.pipelines.tiny_datasets import picture
from tests.run_helpers import MODEL_FLAGS, result

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "data.md").read_text(encoding="utf-8")
# The commands on archives run in tests/pipelines/test_image_archives.py.
SECTION = PAGE[: PAGE.index("### Parquet files and tar files")]
# A line before the first fence of a block is empty.
BLOCKS = re.findall(r"\n\n```\n(.*?)```", SECTION, re.DOTALL)


@pytest.mark.nightly
def test_from_a_folder_of_photos_to_a_measured_model(tmp_path):
    """As on the page but for the backbone, and then what people do next: more classes, and the run goes on."""
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("python -m ")]
    short, *commands = [(line.split()[2], shlex.split(line)[3:]) for line in lines]
    assert short == ("tfdml.train", ["--data_dir=photos"])
    modules = ["pipelines.check", "tfdml.train", "tfdml.evaluate", "tfdml.evaluate", "tfdml.export"]
    assert [module for module, _ in commands] == modules
    make_photos(tmp_path / "photos", range(15))
    make_photos(tmp_path / "other_photos", range(3))
    small = [*MODEL_FLAGS, "--method=single", "--noblend", "--initial_embedding=random", "--validation_classes=0.2"]
    more = {"pipelines.check": [f"--out={tmp_path}/bad.jsonl"]}
    more["tfdml.train"] = [*small, "--initial_weights=", "--steps=2", "--eval_every=1"]
    found = []
    for module, flags in commands:
        place = rf"={os.path.relpath(tmp_path, ROOT)}/\1"
        flags = [re.sub(r"=(photos|other_photos|runs/photos|exported/1)$", place, flag) for flag in flags]
        done = ok(module, *flags, *more.get(module, []))
        if module == "tfdml.evaluate":
            found.append(json.loads(done.stdout.splitlines()[-1])["queries"])
        if module == "tfdml.train":
            training = [*flags, *more[module]]
            make_photos(tmp_path / "photos", range(20, 30))
    assert found == [16, 12]
    run_dir = tmp_path / "runs" / "photos"
    before = result(run_dir)
    (run_dir / "result.json").unlink()
    assert "Resuming" in run("tfdml.train", *training).stdout
    assert result(run_dir) == before


def make_photos(folder, numbers):
    for number in numbers:
        for view in range(4):
            picture(folder / f"class {number}" / f"{view}.jpg", (8 * number, 255 - 8 * number, 60 * view))


def test_too_many_classes_in_a_batch_are_explained(tmp_path):
    make_photos(tmp_path / "photos", range(10))
    flags = ["--dataset=folder(test_classes=0.3)", f"--data_dir={tmp_path}/photos", "--sampler=pxk(classes=8)"]
    flags.append("--validation_classes=0.3")
    done = run("tfdml.train", *MODEL_FLAGS, *flags, "--evaluate_on=validation", f"--run_dir={tmp_path}/run")
    by_share = "3 of 10 classes are held out for the test (test_classes=0.3 in --dataset)."
    by_validation = "2 of 7 training classes are held out for validation (--evaluate_on=validation and "
    share = "--validation_classes=0.3)."
    told = "--sampler=pxk(classes=8): pxk(classes=8) needs that many classes"
    assert_one_error(
        done, told, "have 5. Lower classes.", by_share, by_validation + share, "Or hold out fewer classes."
    )


def test_the_table_of_the_page_is_read(tmp_path):
    (table,) = [block for block in BLOCKS if block.startswith("path,label")]
    (tmp_path / "photos.csv").write_text(table)
    for name in re.findall(r"^\S+\.jpg", table, re.MULTILINE):
        picture(tmp_path / name, (1, 2, 3))
    dataset = load("csv(path='photos.csv')", data_dir=str(tmp_path))
    assert (len(dataset.train), len(dataset.test)) == (2, 2)
    assert dataset.test.is_query.tolist() == [True, False] and dataset.test.is_gallery.tolist() == [False, True]
    assert len(set(dataset.test.cameras)) == 2


def test_every_published_dataset_is_on_its_page():
    page = (DOCS / "published_datasets.md").read_text(encoding="utf-8")
    for name in ("cars196", "cub200", "inshop", "market1501", "sop", "vehicleid", "inaturalist2018", "deepfashion"):
        assert page.count(f"| `{name}") == 2
