"""A run on images with several labels: trained, stopped and gone on with, measured by graded relevance."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, assert_goes_on, shared


@shared("several_labels")
def photos(root):
    """Images of which a label says which half is bright, and another one which color."""
    root.mkdir()
    random, lines = np.random.default_rng(0), ["path,label,split"]
    for number in range(48):
        pixels = random.integers(0, 60, (24, 24, 3), np.uint8)
        left, red = number % 2, number // 2 % 2
        pixels[:, 12 * left : 12 + 12 * left] += 120
        pixels[..., 2 * red] += 70
        Image.fromarray(pixels).save(root / f"{number}.png")
        labels = ["right" if left else "left", "blue" if red else "red"]
        lines.append(f"{number}.png,{'|'.join(labels)},{'test' if number % 3 == 0 else 'train'}")
    (root / "photos.csv").write_text("\n".join(lines))


def flags(run_dir, *more):
    data = [f"--dataset=csv(path='{photos()}/photos.csv', separator='|')", "--sampler=pxk(classes=4, per_class=3)"]
    length = ["--epochs=2", "--steps_per_epoch=6", "--optimizer=adam(learning_rate=0.003)"]
    return [*MODEL_FLAGS, *data, *length, "--loss=multi_similarity", f"--run_dir={run_dir}", *more]


@shared("several_labels_run")
def straight(run_dir):
    ok("tfdml.train", *flags(run_dir))


@pytest.mark.slow
def test_several_labels_are_trained_on_and_measured():
    found = json.loads((straight() / "result.json").read_text())
    assert found["best"]["selected_by"] == "relevance_at_1"
    assert set(found["metrics"]) == {"relevance_at_1", "relevance_at_10", "graded_map", "ndcg"}
    assert found["best"]["relevance_at_1"] >= found["untrained"]["relevance_at_1"] > 0


@pytest.mark.slow
@pytest.mark.nightly
def test_it_goes_on_to_the_same_bits(tmp_path):
    run_dir = tmp_path / "run"
    assert_goes_on(run_dir, flags(run_dir, "--checkpoint_every=2"), straight(), step=2)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_loss_on_proxies_is_refused_in_one_line(tmp_path):
    done = run("tfdml.train", *flags(tmp_path / "run", "--loss=proxy_anchor"))
    assert_one_error(done, "--loss=proxy_anchor has variables of classes", "several labels")
