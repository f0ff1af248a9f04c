"""Papers' recipes fit ten classes of eight images with `--scale_to_data`, and stay as they are on larger data."""

import numpy as np
import pytest
from PIL import Image

from pipelines.sampling import HardNeighbors, Pairs, ProportionalPxK, PxK, Sampler, Triplets, Uniform, Views
from tests.commands import ROOT, ok
from tests.run_helpers import assert_same_run
from tfdml.console import flags
from tfdml.console.settings import Settings
from tfdml.run.experiment.splits import Splits
from tfdml.run.training.run_sampler import make_sampler, scaled_to_data

PAPERS = ("_abe", "_dnc", "_edms", "_lifted", "_rll")
RECIPES = sorted(
    path.stem
    for path in (ROOT / "configs").glob("*.flags")
    if any(paper in path.stem for paper in PAPERS) and not path.stem.startswith("toycars")
)
SMALL = "--backbone=small(width=4, stages=3)"
# A recipe of each paper, and what a network of test size needs.
RUNS = {
    "cub_abe": [SMALL, "--method=attention_ensemble(learners=8, branch='stage2', attention_depth=1)"],
    "cub_dnc": [SMALL, "--embedding_size=16"],
    "cub_edms": [SMALL, "--members=2"],
    "cub_lifted": [SMALL],
    "cub_rll": [SMALL, "--method=multilevel(endpoints=('stage3',), reduced=8, hidden=16)"],
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Ten classes of eight images, half of the classes for the test."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(10):
        part = folder / ("train" if number < 5 else "test") / f"class{number}"
        part.mkdir(parents=True)
        for image in range(8):
            pixels = random.integers(0, 256, (24, 24, 3), np.uint8)
            Image.fromarray(pixels).save(part / f"{image}.png")
    return folder


def vectors(folder, classes, per_class):
    """`--dataset` of stored vectors, so many for each class; half of the classes train."""
    labels = np.repeat(np.arange(2 * classes), per_class)
    np.savez(folder / "vectors.npz", embeddings=np.eye(2, dtype=np.float32)[labels % 2], labels=labels)
    return f"embeddings(path='{folder / 'vectors.npz'}', test_classes=0.5)"


def settings_of(recipe, *more):
    return flags.parse("\n".join(flags.resolve([f"--flagfile={recipe}.flags", *more]).values()))[0]


@pytest.mark.parametrize("recipe", RECIPES)
def test_batches_of_each_recipe_fit_few_images(recipe, photos):
    settings = settings_of(recipe, "--dataset=folder", f"--data_dir={photos}")
    settings = settings.replace(**scaled_to_data(settings))
    splits = Splits.of(settings.data, settings.evaluation, settings.run.seed)
    sampler = make_sampler(settings.batches.sampler, splits, settings.evaluation)
    assert sampler.batch_size <= len(splits.train) == 40
    # Once the settings fit, nothing changes.
    assert scaled_to_data(settings) == {}


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name.startswith(("cub", "cars"))])
def test_a_recipe_stays_as_it_is_on_images_like_those_that_it_is_made_for(recipe, tmp_path):
    assert scaled_to_data(settings_of(recipe, f"--dataset={vectors(tmp_path, 100, 58)}")) == {}


def test_what_changes(tmp_path):
    few = Settings().replace(dataset=vectors(tmp_path, 6, 8))

    def changes(**values):
        return scaled_to_data(few.replace(**{"sampler": "auto", **values}))

    assert changes() == {}
    assert changes(sampler="pxk(per_class=9)") == {"sampler": "pxk(per_class=8, classes=6)"}
    assert changes(sampler="uniform", steps_per_epoch=25) == {"sampler": "uniform(batch_size=48)"}
    assert changes(sampler="uniform(batch_size=24)", steps_per_epoch=50) == {}
    assert changes(sampler="uniform(batch_size=24)", steps_per_epoch=51) == {"steps_per_epoch": 0}
    # Clusters with two classes each, and slices of equal size.
    division = "divide_and_conquer(recluster_every=1)"
    divided = "divide_and_conquer(recluster_every=1, learners={})"
    assert changes(method=division, embedding_size=12) == {"method": divided.format(3)}
    assert changes(method=division, embedding_size=128) == {"method": divided.format(2)}
    assert changes(method="attention_ensemble(learners=8)") == {}
    # Batches have the classes that are left.
    expected = {"meta_classes": 3, "sampler": "pxk(classes=3, per_class=4)"}
    assert changes(meta_classes=50, sampler="pxk(classes=10, per_class=4)") == expected
    assert changes(meta_classes=50, meta_classes_of="images") == {"meta_classes": 24}
    assert changes(meta_classes=5) == {}
    clusters = {"labels": "clusters(k=24, every=2)", "sampler": "pxk(classes=24, per_class=2)"}
    assert changes(labels="clusters(k=100, every=2)", sampler="pxk(classes=32, per_class=4)") == clusters
    assert changes(labels="exchanged(share=0.2)") == {}


@pytest.mark.parametrize(
    "sampler, fits",
    [
        # Classes of 1, 2, 3, 7, and 7 rows.
        (PxK(32, 9), {"classes": 4, "per_class": 7}),
        (PxK(2, 2), {"classes": 2, "per_class": 2}),
        (PxK(4, 4, groups=2), {"classes": 4, "per_class": 4}),
        (PxK(9, 4, groups=3), {"classes": 3, "per_class": 4}),
        (ProportionalPxK(32, 3), {"groups": 6}),
        (Uniform(128), {"batch_size": 20}),
        (Pairs(32), {"images": 10}),
        (Triplets(40), {"triplets": 6}),
        (HardNeighbors(32, 20), {"pairs": 5, "neighbors": 13}),
        (Views(64), {"images": 20}),
        (Sampler(), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arguments_that_fit_fill_a_batch(sampler, fits):
    labels = np.repeat(np.arange(5), [1, 2, 3, 7, 7])
    assert sampler.fitted_to(labels) == fits
    # Groups of PxK need categories of the classes.
    if fits and not (isinstance(sampler, PxK) and sampler.groups):
        type(sampler)(**{**sampler.own_config(), **fits}).tables_of(labels)


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", RUNS)
def test_a_recipe_of_each_paper_runs_on_few_images(recipe, photos, tmp_path):
    data = ["--dataset=folder", f"--data_dir={photos}", "--initial_weights=", "--image_size=24", "--noprojector"]
    transforms = ["--train_transform=random_crop", "--test_transform=warp"]
    given = [f"--flagfile=configs/{recipe}.flags", *data, *transforms, *RUNS[recipe], "--epochs=2", "--eval_every=1"]
    done = ok("tfdml.train", *given, f"--run_dir={tmp_path / 'run'}", "--scale_to_data")
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("--scale_to_data: ")]
    assert " instead of " in told
    folder = tmp_path / "run" / "member_000" if recipe == "cub_edms" else tmp_path / "run"
    assert (folder / "result.json").is_file()
    written = (tmp_path / "run" / "flags.txt").read_text()
    for change in told.removeprefix("--scale_to_data: ").removesuffix(".").split("; "):
        assert f"{change.partition(' instead of ')[0]}\n" in written


@pytest.mark.nightly
def test_a_scaled_run_resumes_exactly_and_is_that_of_the_flags_it_wrote(photos, tmp_path):
    data = ["--dataset=folder", f"--data_dir={photos}", "--initial_weights=", "--image_size=24", "--noprojector"]
    own = [*RUNS["cub_dnc"], "--train_transform=random_crop", "--test_transform=warp", "--eval_every=1"]
    given = ["--flagfile=configs/cub_dnc.flags", *data, *own, f"--run_dir={tmp_path / 'run'}", "--scale_to_data"]
    for epochs in (1, 3):
        done = ok("tfdml.train", *given, f"--epochs={epochs}")
    assert "after step" in done.stdout
    written = [f"--flagfile={tmp_path / 'run' / 'flags.txt'}", f"--run_dir={tmp_path / 'straight'}"]
    done = ok("tfdml.train", *written)
    assert_same_run(tmp_path / "run", tmp_path / "straight")
