"""docs/data.md leads from a folder of photos, and from a table, to a model that is trained and measured."""

import json
import re
import shlex
from pathlib import Path

from pipelines.datasets import load
from tests.pipelines.tiny_datasets import picture
from tests.run_helpers import MODEL_FLAGS, run

PAGE = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Your own images") : PAGE.index("## Published datasets")]
BLOCKS = re.findall(r"```\n(.*?)```", SECTION, re.DOTALL)


def test_from_a_folder_of_photos_to_a_measured_model(tmp_path):
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("python -m ")]
    commands = {line.split()[2]: shlex.split(line)[3:] for line in lines}
    assert list(commands) == ["pipelines.check", "tfdml.train", "tfdml.evaluate", "tfdml.export"]
    # As on the page, with more classes: eight are to be left when a fifth is held out.
    for part, count in (("train", 10), ("test", 2)):
        for number in range(count):
            for view in range(4):
                colour = (20 * number, 255 - 20 * number, 60 * view)
                picture(tmp_path / "photos" / part / f"{part} {number}" / f"{view}.jpg", colour)
    more = {"pipelines.check": [f"--out={tmp_path}/bad.jsonl"]}
    more["tfdml.train"] = [flag for flag in MODEL_FLAGS if "sampler" not in flag] + [
        "--epochs=1",
        "--steps_per_epoch=2",
    ]
    for module, flags in commands.items():
        flags = [re.sub(r"=(photos|runs/photos|exported)$", rf"={tmp_path}/\1", flag) for flag in flags]
        done = run(module, *flags, *more.get(module, []))
        assert done.returncode == 0, (module, done.stderr)
        if module == "tfdml.evaluate":
            assert json.loads(done.stdout.splitlines()[-1])["queries"] == 8


def test_the_table_of_the_page_is_read(tmp_path):
    (table,) = [block for block in BLOCKS if block.startswith("path,label")]
    (tmp_path / "photos.csv").write_text(table)
    for name in re.findall(r"^\S+\.jpg", table, re.MULTILINE):
        picture(tmp_path / name, (1, 2, 3))
    dataset = load("csv(path='photos.csv')", data_dir=str(tmp_path))
    assert (len(dataset.train), len(dataset.test)) == (2, 2)
    assert dataset.test.is_query.tolist() == [True, False] and dataset.test.is_gallery.tolist() == [False, True]
    assert len(set(dataset.test.cameras)) == 2


def test_every_published_dataset_is_on_the_page():
    from pipelines.datasets import cars196, cub200, inshop, market1501, sop, vehicleid

    for dataset in (cars196, cub200, inshop, market1501, sop, vehicleid):
        assert f"| `{dataset.__name__}" in PAGE
