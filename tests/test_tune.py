"""The command that searches for settings: `python -m tfdml.tune`."""

import json
import shutil

import numpy as np
import pytest

from pipelines.datasets.folder import folder
from tests.commands import DIES_AT, Forked, assert_one_error, ok, processes_with, run, until
from tests.run_helpers import MODEL_FLAGS, result, steps
from tfdml.console import flags

CLASSES = 16
# The learning rate alone is left to choose: with that of the recipe there are three trials.
FIXED = [
    *[flag for flag in MODEL_FLAGS if not flag.startswith("--noprojector")],
    "--initial_weights=",
    "--initial_embedding=random",
    "--method=single",
    "--loss=n_pair(scale=20.0)",
    "--validation_classes=0.4",
    "--steps=12",
    "--steps_per_epoch=2",
    "--minutes=600",
]


@pytest.fixture
def animals(tmp_path, write_images):
    """Sixteen classes, of which those of the test have files that are no images."""
    files = {f"class {number:02}/{image}.jpg": (24, 24) for number in range(CLASSES) for image in range(6)}
    photos = write_images(tmp_path / "photos", files)
    for path in folder(photos, test_classes=0.3).test.images:
        with open(path, "w") as file:
            file.write("no image")
    return photos


@pytest.mark.nightly
def test_a_search_that_is_killed_goes_on_and_never_opens_the_test(animals, tmp_path):
    search = tmp_path / "search"
    given = [f"--data_dir={animals}", *FIXED, f"--tune_dir={search}"]
    command, second = Forked("tfdml.tune", *given), search / "trials/001"
    command.until(lambda: max(steps(second), default=0) >= 2)
    # Its trial ends with it, and the search that follows at once finds the folder free.
    assert command.kill().returncode == -9
    first = (search / "trials/000/result.json").read_bytes()
    assert not (search / "trials/002").exists()

    done = ok("tfdml.tune", *given)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("Resuming after ")]
    told = [line.partition(":")[0] for line in lines if line.startswith("Trial ")]
    assert told[:2] == ["Trial 1, 4 steps", "Trial 2, 4 steps"] and len(told) == 4
    assert {line.split(", ")[1] for line in told[2:]} == {"12 steps"} and told[2].startswith("Trial 0")
    assert (search / "trials/000/result.json").read_bytes() != first
    assert [result(search / f"trials/{number:03}")["step"] for number in (0, 1, 2)].count(12) == 2
    (heads,) = [line.split() for line in lines if line.startswith("rank ")]
    assert heads[:4] == ["rank", "trial", "steps", "Recall@1"]
    (won,) = [line for line in lines if line.startswith("Best of 3 trials: ")]
    assert [line for line in lines if line.startswith("Recall@1 compared with the ")]

    best = flags.resolve([f"--flagfile={search / 'best.flags'}"])
    assert best["dataset"] == "--dataset=folder(test_classes=0.3)" and best["steps"] == "--steps=12"
    assert (
        best["evaluate_on"] == "--evaluate_on=validation"
        and best["optimizer"] in won + "--optimizer=adam(learning_rate=0.0003)"
    )
    # Once more it only tells what it has found.
    before = {path: path.stat().st_mtime_ns for path in (search / "trials").rglob("*")}
    again = run("tfdml.tune", *given)
    assert again.returncode == 0 and won in again.stdout.splitlines(), again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in (search / "trials").rglob("*")}
    # The run itself measures the test, and says that its images are none.
    trained = run("tfdml.train", f"--flagfile={search / 'best.flags'}", f"--run_dir={tmp_path / 'best'}")
    assert_one_error(trained, "is not a readable image")


@pytest.mark.nightly
def test_a_kill_while_a_trial_starts_ends_it_and_the_next_search_trains_it(animals, tmp_path):
    search = tmp_path / "search"
    given, first = [f"--data_dir={animals}", *FIXED, f"--tune_dir={search}"], search / "trials" / "000"
    # The first call follows the start of the process, which imports TensorFlow for seconds.
    killed = Forked("tfdml.tune", *given, environment={DIES_AT: "subprocess:Popen wait 1"}).wait()
    assert killed.returncode == -9
    until(lambda: not processes_with(first))
    assert (search / "trials" / "000.log").exists() and not first.exists()

    command = Forked("tfdml.tune", *given).until((first / "result.json").exists)
    assert command.kill().returncode == -9
    assert json.loads((search / "tune.json").read_text())["failed"] == {}
    until(lambda: not processes_with(first.parent))


@pytest.mark.nightly
def test_the_backbone_with_the_best_features_is_chosen(tmp_path):
    """Features that tell classes apart are better than noise; the trials never see the classes of the test."""
    random, labels = np.random.default_rng(0), np.repeat(np.arange(20), 6)
    good = 4 * random.normal(size=(20, 20))[labels] + random.normal(size=(120, 20))
    for name, vectors in {"noise": random.normal(size=(120, 12)), "good": good}.items():
        np.savez(tmp_path / f"{name}.npz", embeddings=vectors.astype(np.float32), labels=labels)
    paths = [f"{tmp_path}/{name}.npz" for name in ("noise", "good")]
    given = ["--optimizer=adam", "--initial_embedding=pca", "--embedding_size=8", "--steps=12", "--steps_per_epoch=2"]
    given += [f"--features={','.join(paths)}", f"--tune_dir={tmp_path}/search", "--minutes=600"]
    told = ok("tfdml.tune", *given).stdout
    rows = [line.split() for line in told.splitlines() if line.startswith(str(tmp_path))]
    assert [row[:2] for row in rows] == [[paths[1], "20"], [paths[0], "12"]] and rows[0][4] == "100.0%"
    assert f"Best features: {paths[1]}." in told and f"Recall@1 compared with {paths[0]}: +" in told
    assert [result(tmp_path / f"search/trials/00{number}")["step"] for number in (0, 1)] == [12, 12]
    best = flags.resolve([f"--flagfile={tmp_path}/search/best.flags"])
    assert best["dataset"] == f"--dataset=embeddings(path='{paths[1]}', test_classes=0.3)"
    again = ok("tfdml.tune", *given).stdout
    assert again[again.index("Best features") :] == told[told.index("Best features") :]


@pytest.mark.parametrize(
    "given, told",
    [
        ([], "--data_dir is missing. Set it to the folder of your images"),
        (
            ["--features=a,b", "--data_dir=photos"],
            "--data_dir has no effect here, because the search trains on --features",
        ),
        (["--features=/no/where"], "--features: /no/where is not an embedding file"),
        (["--features=a,./a"], "--features=a,./a has a folder twice"),
        (
            ["--data_dir=photos", "--epochs=3"],
            "--epochs has no effect here, because --steps is the length of the longest trials",
        ),
        (
            ["--data_dir=photos", "--folds=3"],
            "--folds has no effect here, because a search holds out --validation_classes",
        ),
        (["--data_dir=photos", "--devices=workers"], "--devices=workers cannot be used here"),
        (["--data_dir=photos", "--minutes=-1"], "flag --minutes"),
        (["--data_dir=photos", "--steps=5"], "must be at least 6 with"),
        (
            [
                *("--data_dir=photos", "--loss=circle", "--optimizer=adam", "--method=single", "--image_size=64"),
                "--train_transform=warp",
            ],
            "There is nothing to search for",
        ),
    ],
)
def test_wrong_flags_are_told_in_one_line(given, told, tmp_path):
    (tmp_path / "photos").mkdir()
    given = [flag.replace("=photos", f"={tmp_path}/photos") for flag in given]
    assert_one_error(run("tfdml.tune", *given, f"--tune_dir={tmp_path}/search"), told)
    assert not (tmp_path / "search").exists()


@pytest.mark.slow
def test_too_few_classes_are_told_in_one_line(animals, tmp_path):
    for number in range(4, CLASSES):
        shutil.rmtree(animals / f"class {number:02}")
    done = run("tfdml.tune", f"--data_dir={animals}", *FIXED, f"--tune_dir={tmp_path}/search")
    assert_one_error(done, "held_out=0.4 of 3 training classes holds out 1 class")
