"""docs/decisions.md: its commands run as they stand there."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run
from tests.evaluation.naive_pairs import example
from tests.run_helpers import MODEL_FLAGS

PAGE = (Path(__file__).parents[1] / "docs" / "decisions.md").read_text(encoding="utf-8")
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
    for name in ("test", "validation"):
        np.savez(tmp_path / f"{name}.npz", embeddings=embeddings, labels=labels)
    order = np.argsort(labels, kind="stable")
    pairs = [(a, b) for step in (1, 40) for a, b in zip(order, order[step:], strict=False)]
    rows = [f"{a}.jpg,{b}.jpg,{int(labels[a] == labels[b])}" for a, b in pairs]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b,same", *rows]))
    return tmp_path


def placed(command, folder):
    """The module and flags of a command, with files in a folder."""
    _, _, module, *flags = shlex.split(command)
    return module, [re.sub(r"=([\w/]+\.(?:npz|csv)|runs/\w+)$", rf"={folder}/\1", flag) for flag in flags]


def test_commands_on_embeddings(files):
    chosen = [command for command in COMMANDS if "--embeddings" in command]
    found = []
    for command in chosen:
        module, flags = placed(command, files)
        done = run(module, *flags)
        assert done.returncode == 0, (command, done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    measured, threshold, verified, identified = found
    assert measured["intervals"].keys() == {"recall_at_1", "roc_auc", "tar_at_far_0.001"}
    assert threshold["far"] == 1e-3 and 0.5 < verified["accuracy"] <= 1
    assert 0 < identified["dir_at_far_0.01"] < 1


def test_every_metric_of_pairs_has_a_row():
    from tfdml.evaluation.metrics import PairMetric
    from tfdml.registry import registered

    names = {name for name, kind in registered("metric").items() if issubclass(kind, PairMetric)}
    rows = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert {name for name in names if not re.search(rf"`{name}(_[\d.]+)?`", rows)} == set()


@pytest.mark.slow
@pytest.mark.nightly
def test_commands_on_a_run(tmp_path):
    (train,) = [command for command in COMMANDS if "tfdml.train" in command]
    module, flags = placed(train.replace("runs/consistent", "runs/mine"), tmp_path)
    small = [flag for flag in MODEL_FLAGS if "sampler" not in flag]
    done = run(
        module,
        *flags,
        *small,
        "--initial_weights=",
        "--steps=4",
        "--evaluate_on=validation",
        "--validation_classes=0.5",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "runs/mine/result.json").read_text())
    assert result["best"]["opis"] >= 0 and result["validation"]["best"]["opis"] >= 0
    for command in COMMANDS:
        if "tfdml.threshold --run_dir" in command:
            module, flags = placed(command, tmp_path)
            done = run(module, *flags)
            assert done.returncode == 0 or "Choose another rate" in done.stderr, done.stderr
