"""`python -m tfdml.suspects`: a list that training reads, and a page, of embeddings and of runs."""

import json
import re

import numpy as np
import pytest

from pipelines.dataset import read_list
from pipelines.datasets import load
from tests.commands import assert_one_error, last_json, run
from tests.evaluation.test_suspicion import clusters, exchanged
from tests.run_helpers import pictures, straight_run
from tests.serving_fixtures import picture
from tfdml.run.experiment.judged_images import JudgedImages


@pytest.fixture
def folder(tmp_path):
    """Photos of six classes, two in the wrong folder, and what two models embed them to."""
    embeddings, labels = clusters(5, classes=6, each=8)
    given, _ = exchanged(labels, 2 / 48)
    names = []
    for row, label in enumerate(given):
        names.append(f"{label}/{row}.png")
        (tmp_path / "photos" / names[-1]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / names[-1]).write_bytes(picture(row))
    for seed, file in enumerate(("a.npz", "b.npz")):
        noise = 0.1 * np.random.default_rng(seed).normal(size=embeddings.shape)
        np.savez(tmp_path / file, embeddings=embeddings + noise, labels=given, names=names)
    wrong = [names[row] for row in np.flatnonzero(given != labels)]
    return tmp_path, wrong


@pytest.mark.slow
def test_photos_in_the_wrong_folder(folder):
    path, wrong = folder
    files = f"--embeddings={path}/a.npz,{path}/b.npz"
    done = run("tfdml.suspects", files, f"--data_dir={path}/photos", f"--out={path}/out")
    found = last_json(done)
    assert found["images"] == 48 and found["suspects"] == 2 and found["unjudged"] == 0
    listed = read_list(found["list"])
    assert sorted(listed) == sorted(wrong)
    data = json.loads(re.search(r'id="data">(.*?)</script>', open(found["labels"]).read(), re.DOTALL)[1])
    assert [data["paths"][each["row"]] for each in data["asked"]] == [f"{path}/photos/{name}" for name in listed]
    assert all(each["proposed"] not in ("", data["labels"][each["row"]]) and each["near"] for each in data["asked"])
    assert listed[0] in done.stdout and "2 of 2" in done.stdout
    assert "2 of 48 images are closer to another class than to their own" in done.stdout
    text = (path / "out" / "index.html").read_text()
    assert listed[0] in text and "data:image/jpeg" in text and not re.search(r"https?://", text)
    gallery = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["gallery"]
    reasons = [json.loads(line)["reason"] for line in (path / "out" / "suspects.jsonl").read_text().splitlines()]
    assert [query["note"] for query in gallery["queries"]] == [reason.partition(" than ")[0] for reason in reasons]
    done = run("tfdml.suspects", files, f"--out={path}/few", "--share=0.01")
    assert last_json(done)["doubted"] == 2 and "The list contains the 1 most doubtful of them." in done.stdout
    assert read_list(path / "few" / "suspects.jsonl") == listed[:1]
    options = {"data_dir": str(path / "photos")}
    whole = load("folder(test_classes=0.5)", **options)
    cut = load("folder(test_classes=0.5)", ignore_images=found["list"], **options)
    assert sum(map(len, whole.splits().values())) - sum(map(len, cut.splits().values())) == 2


@pytest.mark.slow
def test_embeddings_without_names_and_of_other_rows(folder):
    path, _ = folder
    arrays = dict(np.load(path / "a.npz"))
    del arrays["names"]
    np.savez(path / "nameless.npz", **arrays)
    found = last_json(run("tfdml.suspects", f"--embeddings={path}/nameless.npz", f"--out={path}/out"))
    assert "page" not in found and all(re.fullmatch(r"train#\d+", name) for name in read_list(found["list"]))
    np.savez(path / "other.npz", embeddings=arrays["embeddings"], labels=arrays["labels"][::-1])
    done = run("tfdml.suspects", f"--embeddings={path}/a.npz,{path}/other.npz")
    assert_one_error(done, "have different images or labels. Use embeddings of the same rows")


def test_classes_of_other_names_are_other_labels(tmp_path):
    for names in ("ab", "cd"):
        np.savez(tmp_path / f"{names}.npz", embeddings=np.eye(4), labels=np.repeat(list(names), 2))
    paths = [tmp_path / "ab.npz", tmp_path / "cd.npz"]
    with pytest.raises(ValueError, match="have different images or labels"):
        JudgedImages.of_files(paths)
    assert len(JudgedImages.of_files([paths[0]] * 2).judges) == 2


@pytest.mark.nightly
def test_a_run_judges_its_images(tmp_path):
    done = run("tfdml.suspects", f"--run_dirs={straight_run()}", f"--data_dir={pictures()}", f"--out={tmp_path}/out")
    found = last_json(done)
    assert found["images"] == 64 and found["suspects"] == len(read_list(found["list"]))
    done = run("tfdml.suspects", f"--run_dirs={straight_run()}", "--split=validation")
    assert_one_error(done, "has no validation classes")


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "Set exactly one of --run_dirs and --embeddings. Received: neither"),
        (["--run_dirs=a", "--embeddings=b"], "Received: both"),
        (["--run_dirs=a", "--labels=b"], "--labels has no effect here"),
        (["--embeddings=a.npz", "--which=final"], "--which has no effect here"),
        (["--embeddings=a.npz", "--split=validation"], "--split=validation needs --run_dirs"),
        (["--embeddings=none.npz"], "none.npz does not exist"),
        ([f"--embeddings={__file__}", f"--out={__file__}/list"], "test_suspects.py is a file. Set --out to a folder"),
    ],
)
@pytest.mark.slow
def test_bad_flags_are_told(flags, words):
    assert_one_error(run("tfdml.suspects", *flags), words)
