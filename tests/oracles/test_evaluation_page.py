"""The page on evaluation, as a user of PyTorch reads it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run
from tfdml.evaluation import evaluate

torch = pytest.importorskip("torch")
PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_embeddings_of_pytorch_are_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"`(np\.savez\(.*?labels=labels\))`", PAGE.read_text(encoding="utf-8"))
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 4)
    images = torch.tensor(random.normal(size=(10, 3, 4, 4))[labels] + 3 * random.normal(size=(40, 3, 4, 4)))
    exec(compile(example, str(PAGE), "exec"), {"np": np, "embeddings": images.flatten(1), "labels": labels})
    done = run("tfdml.evaluate", f"--embeddings={tmp_path}/test.npz", "--metrics=recall_at_1,map_at_r")
    found = json.loads(done.stdout.splitlines()[-1])
    expected = evaluate(images.flatten(1).numpy(), labels, ("recall_at_1", "map_at_r"))
    assert {name: found[name] for name in expected} == expected and 0 < expected["recall_at_1"] < 1
