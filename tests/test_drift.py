"""`python -m tfdml.drift`: recent queries are compared with a reference, or with the index, and drawn."""

import json
import re
import shlex

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import drift as study
from tests.commands import ROOT, assert_one_error, last_json, ok, run
from tests.serving_fixtures import exported, picture
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images

PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
SECTION = re.search(r"\n## Drift\n(.*?)\n## ", PAGE, re.DOTALL)[1]


def dark(seed):
    """A picture whose colors are far from those of other pictures."""
    import io

    pixels, file = np.asarray(Image.open(io.BytesIO(picture(seed)))) // 8, io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("drift")
    seeds = iter(range(1000))
    for name, draw, count in (
        ("photos", picture, 60),
        ("validation_photos", picture, 40),
        ("recent_photos", dark, 40),
        ("same_photos", picture, 40),
        ("few_photos", picture, 12),
    ):
        (root / name).mkdir()
        for number in range(count):
            (root / name / f"{number}.png").write_bytes(draw(next(seeds)))
    (root / "recent_photos" / "broken.png").write_bytes(b"text")
    index_images(root / "photo_index", ImageList.of(str(root / "photos")), model=exported())
    return root


def flags_of(folder, queries, *more):
    return [f"--index={folder}/photo_index", f"--queries={folder / queries}", *more]


@pytest.mark.slow
def test_the_commands_of_the_page_run(folder, tmp_path):
    commands = [shlex.split(line)[2:] for line in SECTION.splitlines() if line.startswith("python -m tfdml.drift")]
    assert len(commands) == 1
    (module, *flags) = commands[0]
    flags = [re.sub(r"=(photo_index|recent_photos|validation_photos)$", rf"={folder}/\1", flag) for flag in flags]
    flags = [flag.replace("=drift.png", f"={tmp_path}/drift.png") for flag in flags]
    done = ok(module, *flags)
    found = last_json(done)
    assert found["differs"] and found["queries"] == 40 == found["reference"] and found["p_value"] <= 0.004
    assert found["similarity"][2][1] < 0 and found["unknown"] is None
    assert "Skipped 1 of 41 images that cannot be read. The first is" in done.stdout and "broken.png" in done.stdout
    assert "The queries differ from the reference by more than chance (p = 0.0" in done.stdout
    assert (
        Image.open(tmp_path / "drift.png").size[0] > 300 and "validation_photos" in (tmp_path / "drift.svg").read_text()
    )
    shown, printed = (
        [re.sub(r"[-+]?\d+(?:\.\d+)?", "N", line) for line in text.splitlines() if line]
        for text in (re.search(r"```text\n(.*?)```", SECTION, re.DOTALL)[1], done.stdout)
    )
    assert len(shown) == 3 and set(shown) <= set(printed)


@pytest.mark.nightly
def test_equal_sources_embedded_before_and_a_threshold(folder, tmp_path):
    for name in ("same_photos", "validation_photos"):
        embed_images(tmp_path / name, ImageList.of(str(folder / name)), model=exported())
    done = ok(
        "tfdml.drift",
        *flags_of(folder, tmp_path / "same_photos", f"--reference={tmp_path}/validation_photos", "--threshold=0.99"),
    )
    found = last_json(done)
    assert not found["differs"] and "No difference between the queries and the reference was found" in done.stdout
    assert len(found["unknown"]) == 3 and "Unknown, below the threshold: " in done.stdout


@pytest.mark.nightly
def test_images_of_the_index_are_not_compared_with_themselves(folder):
    found = last_json(ok("tfdml.drift", *flags_of(folder, "photos")))
    assert found["reference"] == 60 and found["similarity"][0] == pytest.approx(found["similarity"][1], abs=1e-4)
    assert found["similarity"][0] < 0.9999 and not found["differs"]


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "--index is missing. Set it to the folder or address of an index."),
        (["--index=a"], "--queries is missing. Set it to the recent queries."),
        (["--index=a", "--queries=b", "--out=a.jpg"], "--out=a.jpg must end in .png, for example drift.png."),
    ],
)
def test_wrong_flags_are_one_line(flags, words):
    assert_one_error(run("tfdml.drift", *flags), words)


def test_too_few_images_are_one_line(folder):
    done = run("tfdml.drift", *flags_of(folder, "few_photos"))
    assert_one_error(done, "Expected at least 30 queries to judge drift. Received: 12.")


def test_the_table_and_the_picture_of_the_page_are_the_record():
    record = json.loads(study.RECORD.read_text())
    assert study.table(record) in SECTION
    assert study.PICTURE.read_text(encoding="utf-8") == study.drawing(record)
    for cases in record.values():
        for case in cases:
            # Without drift, 5% of 60 draws plus three standard deviations.
            assert case["share"] or case["found"] <= 0.135


def test_the_study_finds_what_it_puts_in(monkeypatch):
    monkeypatch.setattr(study, "SIZES", (40,))
    random, labels = np.random.default_rng(0), np.repeat(np.arange(10), 40)
    embeddings = random.normal(size=(10, 8))[labels] + 0.3 * random.normal(size=(400, 8))
    found = {case["share"]: case["found"] for case in study.measured(embeddings, labels, times=10)}
    assert found[0.0] <= 0.3 and found[0.4] == 1
