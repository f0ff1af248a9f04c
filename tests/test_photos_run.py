"""A folder of photos without classes: trained, stopped and gone on with, indexed, searched, clustered."""

import json

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, assert_goes_on, made_once, variable_names

IMAGES = 40
# Name of a run that is not stopped to what is its own: with what is kept beside the network, as well.
RUNS = {
    "photos_run": [],
    "photos_momentum_run": ["--memory=momentum(size=60, start=2, decay=0.9)"],
    "photos_simsiam_run": ["--loss=simsiam(hidden=8)"],
}


def photos_folder():
    """Images of random colors in nested folders."""

    def make(root):
        random = np.random.default_rng(0)
        for number in range(IMAGES):
            path = root / ("a" if number % 2 else "b/c") / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (4, 4, 3), np.uint8)
            Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC).save(path)

    return made_once("unlabelled", make)


def flags(run_dir, *more):
    data = ["--dataset=photos(held_out=0.25)", f"--data_dir={photos_folder()}"]
    length = ["--epochs=2", "--steps_per_epoch=8", "--optimizer=adam(learning_rate=0.003)"]
    own = ["--sampler=views(images=10)", "--loss=nt_xent(temperature=0.2)"]
    return [*data, *MODEL_FLAGS, *length, *own, f"--run_dir={run_dir}", *more]


def straight(name="photos_run"):
    def make(run_dir):
        done = run("tfdml.train", *flags(run_dir, *RUNS[name]))
        assert done.returncode == 0 and not done.stderr, done.stderr

    return made_once(name, make)


@pytest.mark.slow
def test_photos_train_and_are_measured_without_classes():
    found = json.loads((straight() / "result.json").read_text())
    assert found["best"]["selected_by"] == "neighbors_kept"
    for metrics in (found["metrics"], found["untrained"]):
        assert set(metrics) == {"neighbors_kept", "alignment", "uniformity", "effective_rank"}
    assert found["metrics"]["alignment"] < found["untrained"]["alignment"] or found["best"]["neighbors_kept"] > 0.5


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_to_the_same_bits(tmp_path, name):
    run_dir = tmp_path / "run"
    assert_goes_on(run_dir, flags(run_dir, *RUNS[name], "--checkpoint_every=3"), straight(name), step=6)


@pytest.mark.slow
@pytest.mark.nightly
def test_checkpoints_have_what_is_kept_beside_the_network():
    plain, momentum, simsiam = (len(variable_names(straight(name))) for name in RUNS)
    assert plain < momentum and plain < simsiam


@pytest.mark.slow
def test_photos_are_indexed_searched_and_clustered(tmp_path):
    ok("tfdml.export", f"--run_dir={straight()}", f"--out={tmp_path}/exported")
    index = f"{tmp_path}/index"
    done = run("tfdml.index", f"--model={tmp_path}/exported", f"--images={photos_folder()}", f"--out={index}")
    assert done.returncode == 0 and f"Indexed {IMAGES} images" in done.stdout, done.stderr
    query = str(photos_folder() / "a" / "1.png")
    done = run("tfdml.search", f"--index={index}", "--k=3", "--format=json", query)
    assert done.returncode == 0 and query in done.stdout, done.stderr
    clusters = [f"--embeddings={index}/embeddings", "--clusters=4", f"--out={tmp_path}/clusters.parquet"]
    ok("tfdml.cluster", *clusters)
    table = pyarrow.parquet.read_table(tmp_path / "clusters.parquet")
    assert len(table) == IMAGES and set(table["cluster"].to_pylist()) == {0, 1, 2, 3}


@pytest.mark.slow
def test_metrics_that_need_classes_are_named_in_one_line():
    done = run("tfdml.evaluate", f"--run_dir={straight()}", "--metrics=recall_at_1,alignment")
    assert done.returncode == 0 and "alignment" in json.loads(done.stdout.splitlines()[-1])
    assert "photos has no classes, so these metrics are left out: recall_at_1." in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--sampler=pxk(classes=4, per_class=2)"], ["photos has no classes. Use --sampler='views(images=64)'"]),
        (["--train_transform=warp"], ["--train_transform=warp draws nothing at random", "one view of an image only"]),
        (["--sampler=views(images=31)"], ["needs that many training rows, there are 30", "photos has no classes"]),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, more, words):
    assert_one_error(run("tfdml.train", *flags(tmp_path / "run", *more)), *words)
