"""docs/verification.md: its commands run as they stand there."""

import base64
import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.commands import ok
from tests.evaluation.naive_pairs import example
from tests.run_helpers import MODEL_FLAGS
from tests.serving.http.service import Service

PAGE = (Path(__file__).parents[1] / "docs" / "verification.md").read_text(encoding="utf-8")
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("python -m ")]


@pytest.fixture
def files(tmp_path):
    """The files that the commands name."""
    embeddings, labels = example(0, rows=400, classes=60, spread=0.4)
    is_gallery = (np.arange(len(labels)) % 2 == 0) & (labels % 3 > 0)
    names = [f"{row}.jpg" for row in range(len(labels))]
    marks = {"is_gallery": is_gallery, "is_query": ~is_gallery}
    np.savez(tmp_path / "open.npz", embeddings=embeddings, labels=labels, **marks)
    np.savez(tmp_path / "faces.npz", embeddings=embeddings, names=names)
    for name in ("test", "validation", "one", "other"):
        np.savez(tmp_path / f"{name}.npz", embeddings=embeddings, labels=labels)
    order = np.argsort(labels, kind="stable")
    pairs = [(a, b) for step in (1, 40) for a, b in zip(order, order[step:], strict=False)]
    rows = [f"{a}.jpg,{b}.jpg,{int(labels[a] == labels[b])}" for a, b in pairs]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b,same", *rows]))
    return tmp_path


def placed(command, folder):
    """The module and flags of a command, with files in a folder."""
    _, _, module, *flags = shlex.split(command)
    own = r"(?<=[=,])(?=runs/|exported|photo|embedded|new_photos|held_out|suspects|\w+\.npz|\w+\.csv)|^(?=query\.jpg)"
    return module, [re.sub(own, f"{folder}/", flag) for flag in flags]


def test_commands_on_embeddings(files):
    chosen = [command for command in COMMANDS if re.search(r"--embeddings=[\w,.]+npz", command)]
    found = []
    for command in chosen:
        module, flags = placed(command, files)
        done = ok(module, *flags)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    threshold, measured, verified, identified, suspects = found
    assert measured["intervals"].keys() == {"recall_at_1", "roc_auc", "tar_at_far_0.001"}
    assert threshold["precision"] >= 0.95 and 0.5 < verified["accuracy"] <= 1
    assert 0 < identified["dir_at_far_0.01"] < 1 and suspects["images"] == 400 > suspects["suspects"] > 0


def test_every_metric_of_pairs_has_a_row():
    from tfdml.evaluation.metrics import PairMetric
    from tfdml.registry import registered

    names = {name for name, kind in registered("metric").items() if issubclass(kind, PairMetric)}
    rows = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert {name for name in names if not re.search(rf"`{name}(_[\d.]+)?`", rows)} == set()


@pytest.mark.nightly
def test_the_consistent_loss_trains(tmp_path):
    (train,) = [command for command in COMMANDS if "threshold_consistent_margin" in command]
    module, flags = placed(train, tmp_path)
    small = [flag for flag in MODEL_FLAGS if "sampler" not in flag]
    ok(module, *flags, *small, "--initial_weights=", "--steps=4")
    assert json.loads((tmp_path / "runs/consistent/result.json").read_text())["best"]["opis"] >= 0


def write_photos(folder, classes=32, count=8):
    """Photos whose color says their class, for most of the classes; of a stranger; and a few that are new."""
    random = np.random.default_rng(0)
    for label in range(classes):
        color = random.integers(0, 256, 3)
        for number in range(count + 1):
            pixels = np.clip(color + random.normal(0, 25, (32, 32, 3)), 0, 255).astype(np.uint8)
            path = folder / f"photos/{label:02d}/{number}.png" if number < count else folder / f"new_photos/{label}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    shutil.copytree(folder / "photos", folder / "held_out")
    pixels = np.kron(np.arange(256).reshape(16, 16, 1), np.ones((4, 4, 3)))
    Image.fromarray(pixels.astype(np.uint8)).save(folder / "query.jpg")


@pytest.mark.nightly
def test_from_a_run_to_a_service_that_says_unknown(tmp_path):
    write_photos(tmp_path)
    chain = PAGE[PAGE.index("## From a run") : PAGE.index("## Metrics of pairs")]
    commands = [line for line in chain.splitlines() if line.startswith("python -m ")]
    commands += [command for command in COMMANDS if "tfdml.suspects --run_dirs" in command]
    printed = {}
    for command in commands:
        module, flags = placed(command, tmp_path)
        if module == "tfdml.serve" or any("validation.npz" in flag for flag in flags):
            continue
        if module == "tfdml.train":
            flags += [*(flag for flag in MODEL_FLAGS if not re.match("--(dataset|data_dir)", flag)), "--epochs=1"]
            flags += ["--validation_classes=0.5", "--steps_per_epoch=10", "--initial_weights="]
        if module == "tfdml.threshold":
            flags.append("--samples=100")
        done = ok(module, *flags)
        printed[command] = done.stdout
    told = [printed[command].splitlines() for command in printed if "tfdml.search" in command]
    assert all(
        lines[0].startswith("Using the threshold ") and "a false accept rate of 0.001 on " in lines[0] for lines in told
    )
    assert {line.split()[1] for line in told[0][2:]} <= {"accepted", "below"}
    labels = [line.split()[1] for line in told[1][1:]]
    assert len(labels) == 32 and len(set(labels) - {"unknown"}) > 1
    fitted = json.loads(printed[commands[1]].splitlines()[-1])
    assert fitted["split"] == "validation" and fitted["false_accept_rate"] <= 1e-3
    # The last one is fitted on the held-out photos.
    card = json.loads((tmp_path / "photo_index/model/metadata.json").read_text())
    assert card["threshold"]["threshold"] != fitted["threshold"] and card["threshold"]["classes"] == 32
    service = Service(tmp_path / "photo_index")
    content = base64.b64encode((tmp_path / "query.jpg").read_bytes()).decode()
    answer = service.ask("label", json.dumps({"b64": content}).encode(), **{"content-type": "application/json"})
    assert answer["threshold"] == card["threshold"]["threshold"] and answer["accepted"] == (
        answer["label"] != "unknown"
    )
    assert service.kill(signal.SIGINT).returncode == 130
