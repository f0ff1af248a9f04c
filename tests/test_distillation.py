"""Runs with a teacher, and runs that stay near their initial model: what they store, resume and report."""

import shutil

import numpy as np
import pytest

import tfdml
from pipelines.datasets import Split, load
from tests.commands import Forked, assert_one_error, ok, run
from tests.run_helpers import (
    STEPS_PER_EPOCH,
    assert_goes_on,
    assert_same_run,
    assert_went_on,
    events,
    pictures,
    result,
    shared,
    steps,
    train_flags,
    trained,
)
from tfdml.files.shards import EmbeddingShards
from tfdml.reporting.run_page import state, title_of
from tfdml.run.directory.run_record import Record
from tfdml.run.training.distillation import kept_in_words
from tfdml.run.training.references import opened, vectors_by_path

DATA = "toycars(classes=16, images_per_class=8, image_size=24)"
NEAR = ["--backbone=small(width=16)", "--initial_weights=toycars", "--initial_embedding=auto", "--head=linear"]


@shared("teacher")
def teacher_run(run_dir):
    """A run with an embedding of 24 dimensions."""
    trained(run_dir, "--embedding_size=24", "--epochs=1")


def student_flags(run_dir, teacher, *more):
    return train_flags(run_dir, f"--teacher={teacher}", "--checkpoint_every=3", *more)


@pytest.mark.slow
def test_a_student_keeps_what_its_result_says_and_resumes_without_its_teacher(tmp_path):
    teacher, straight, killed = tmp_path / "teacher", tmp_path / "straight", tmp_path / "killed"
    shutil.copytree(teacher_run(), teacher)
    loss = "--loss=triplet + 0.5*teacher"
    done = ok("tfdml.train", *student_flags(straight, teacher, loss))
    found, model = result(straight), tfdml.load(teacher)
    splits = load(DATA, data_dir=pictures())
    stored = {name: np.load(straight / "references" / f"{name}.npy") for name in ("teacher", "teacher_test")}
    for name, split in (("teacher", splits.train), ("teacher_test", splits.test)):
        np.testing.assert_allclose(stored[name], model.embed_split(split, verbose=0), atol=1e-5)
    distilled = found["distillation"]
    assert (
        distilled["teacher"] == found["teacher"]["recall_at_1"] == pytest.approx(result(teacher)["best"]["recall_at_1"])
    )
    assert distilled["student"] == found["best"]["recall_at_1"]
    assert distilled["kept"] == distilled["student"] / distilled["teacher"]
    assert distilled["dims"] == {"teacher": 24, "student": 16}
    assert distilled["parameters"]["student"] < distilled["parameters"]["teacher"]
    record = Record.of(straight)
    assert title_of(record).endswith("trained with triplet and teacher loss") and "it keeps" in state(record)
    # The spaces differ.
    assert "student_in_teacher" not in distilled
    assert f"it keeps {distilled['kept']:.1%}" in done.stdout and "images per second here" in done.stdout
    assert "\nteacher  " in done.stdout
    assert all("teacher_distance_of_loss_1" in event for event in events(straight) if event["event"] == "pairs")

    flags = student_flags(killed, teacher, loss)
    Forked("tfdml.train", *flags).until(lambda: max(steps(killed), default=0) >= STEPS_PER_EPOCH + 3).kill()
    shutil.rmtree(teacher)
    assert_went_on(killed, ok("tfdml.train", *flags))
    assert_same_run(killed, straight)


@pytest.mark.nightly
def test_a_teacher_may_be_an_exported_model(tmp_path):
    exported, run_dir = tmp_path / "exported" / "1", tmp_path / "run"
    ok("tfdml.export", f"--run_dir={teacher_run()}", f"--out={exported}")
    ok("tfdml.train", *student_flags(run_dir, exported.parent, "--loss=teacher", "--epochs=1"))
    splits, model = load(DATA, data_dir=pictures()), tfdml.load(teacher_run())
    for name, split in (("teacher", splits.train), ("teacher_test", splits.test)):
        stored = np.load(run_dir / "references" / f"{name}.npy")
        np.testing.assert_allclose(stored, model.embed_split(split, verbose=0), atol=1e-5)
    distilled = result(run_dir)["distillation"]
    assert distilled["dims"] == {"teacher": 24, "student": 16} and not distilled["parameters"]["teacher"]
    (exported / "saved_model.pb").write_bytes(b"damaged")
    done = run("tfdml.train", *student_flags(tmp_path / "other", exported, "--loss=teacher"))
    assert_one_error(done, f"--teacher={exported}: The SavedModel {exported} cannot be read. Export it again")


@pytest.mark.nightly
def test_a_student_without_a_projection_searches_the_teachers_gallery(tmp_path):
    run_dir = tmp_path / "run"
    more = ["--loss=teacher(projection=False)", "--embedding_size=24", "--epochs=1"]
    done = ok("tfdml.train", *student_flags(run_dir, teacher_run(), *more))
    found = result(run_dir)["distillation"]["student_in_teacher"]
    split = load(DATA, data_dir=pictures()).test
    student, teacher = (tfdml.load(each).embed_split(split, verbose=0) for each in (run_dir, teacher_run()))
    similar = student @ teacher.T
    np.fill_diagonal(similar, -np.inf)
    hits = split.labels[similar.argmax(axis=1)] == split.labels
    assert found["recall_at_1"] == pytest.approx(hits.mean())
    assert f"with the student's gives {hits.mean():.1%}" in done.stdout


@pytest.mark.nightly
def test_photos_without_labels_and_views(tmp_path):
    more = ["--loss=teacher(form='pairs')", "--sampler=views(images=8)", "--labels=images", "--epochs=1"]
    ok("tfdml.train", *student_flags(tmp_path / "run", teacher_run(), *more))
    assert result(tmp_path / "run")["distillation"]["kept"] > 0


@pytest.mark.nightly
def test_a_run_near_its_initial_model_resumes_with_the_same_bits(tmp_path, write_images):
    write_images(tmp_path / "others", {f"{number}.png": (24, 24) for number in range(20)})
    more = [*NEAR, "--blend", "--layer_decay=0.5", "--checkpoint_every=3", "--toward_initial_weights=0.1"]
    more += ["--toward_initial_embeddings=2", f"--anchor_images={tmp_path / 'others'}", "--epochs=1"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    trained(straight, *more)
    assert np.load(straight / "references" / "initial.npy").shape == (20, 16)
    (event,) = [event for event in events(straight) if event["event"] == "pairs"]
    assert 0 < event["initial_distance_of_loss_2"] < 1
    assert_goes_on(killed, train_flags(killed, *more), straight, step=6)
    (killed / "result.json").unlink()
    (tmp_path / "others" / "0.png").rename(tmp_path / "others" / "new.png")
    done = run("tfdml.train", *train_flags(killed, *more))
    assert_one_error(done, "has other files than when the run was started. Restore them")


@pytest.mark.nightly
def test_the_distance_to_the_initial_model_begins_at_zero_and_its_weight_keeps_it_small(tmp_path, write_images):
    write_images(tmp_path / "others", {f"{number}.png": (24, 24) for number in range(20)})
    at = {}
    for name, weight, rate in (("begin", 1.0, 1e-12), ("free", 1e-6, 0.01), ("near", 10.0, 0.01)):
        more = [*NEAR, f"--optimizer=adam(learning_rate={rate})", f"--toward_initial_embeddings={weight}"]
        trained(tmp_path / name, *more, f"--anchor_images={tmp_path / 'others'}", "--epochs=1")
        (event,) = [event for event in events(tmp_path / name) if event["event"] == "pairs"]
        at[name] = event["initial_distance_of_loss_1"]
    assert at["begin"] == pytest.approx(0, abs=1e-6)
    assert 5 * at["near"] < at["free"]


@pytest.mark.nightly
def test_errors(tmp_path, write_images):
    write_images(tmp_path / "few", {f"{number}.png": (24, 24) for number in range(3)})
    teacher, few = f"--teacher={teacher_run()}", f"--anchor_images={tmp_path / 'few'}"
    cases = [
        (["--loss=triplet + teacher"], "The loss teacher needs a teacher. Set --teacher"),
        ([teacher], "--teacher has no effect, because --loss=triplet has no term teacher"),
        (["--loss=teacher", "--teacher=/no/where"], "--teacher=/no/where does not exist. Set --teacher to a run"),
        (["--loss=teacher", f"--teacher={tmp_path / 'few'}"], "is neither a model nor a folder of embeddings"),
        (["--loss=teacher(projection=False)", teacher], "embeddings must have the teacher's 24 dimensions"),
        (["--toward_initial_weights=1"], "but the backbone starts from random weights. Set --initial_weights"),
        ([*NEAR, "--initial_embedding=random", "--toward_initial_embeddings=1"], "random makes them random"),
        ([few], "--anchor_images has no effect"),
        ([*NEAR, "--toward_initial_embeddings=1", few], "has 3 images, but each batch needs 16"),
        ([*NEAR, "--toward_initial_embeddings=1", "--anchor_images=/no/where"], "is not a folder"),
    ]
    for number, (flags, message) in enumerate(cases):
        done = run("tfdml.train", *train_flags(tmp_path / str(number), *flags))
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert done.returncode and len(lines) == 1 and message in lines[0], (message, done.stderr)
        assert "Traceback" not in done.stderr and not (tmp_path / str(number) / "flags.txt").exists()


# Without a run.


@pytest.fixture
def photos(tmp_path, write_images):
    names = [f"{folder}/{number}.png" for folder in "ab" for number in range(3)]
    write_images(tmp_path / "photos", {name: (8, 8) for name in names})
    return [str(tmp_path / "photos" / name) for name in names]


def stored(folder, paths, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(len(paths), 4)).astype(np.float32)
    shards = EmbeddingShards.create(folder, model="hash", dimension=4)
    shards.append(paths[:2], [None] * 2, vectors[:2])
    shards.append(paths[2:], [None] * len(paths[2:]), vectors[2:])
    return vectors


def test_vectors_of_a_folder_are_found_by_their_paths(tmp_path, photos):
    order = [4, 0, 5, 2, 1, 3]
    vectors = stored(tmp_path / "embedded", [photos[row] for row in order])
    shards = opened(tmp_path / "embedded")
    split = Split(np.array(photos, object), np.zeros(6, np.int64))
    found = vectors_by_path(shards, split, "embedded")
    np.testing.assert_array_equal(found[order], vectors)
    more = Split(np.array([*photos, "/other.png"], object), np.zeros(7, np.int64))
    assert vectors_by_path(shards, more, "embedded", may_miss=True) is None
    with pytest.raises(ValueError, match="no embedding of 1 of 7 training images, such as /other.png. Embed these"):
        vectors_by_path(shards, more, "embedded")
    boxed = Split(split.images, split.labels, boxes=np.tile(np.int32([0, 0, 4, 4]), (6, 1)))
    with pytest.raises(ValueError, match="by their paths, but this dataset has archives or boxes"):
        vectors_by_path(shards, boxed, "embedded")


def test_a_folder_is_an_exported_model_if_it_or_a_version_in_it_has_its_graph(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(ValueError, match="neither a model nor a folder of embeddings. Set --teacher to a run directo"):
        opened(tmp_path, str)
    (tmp_path / "1" / "saved_model.pb").touch()
    assert opened(tmp_path, str) == str(tmp_path) and opened(tmp_path / "1", str) == str(tmp_path / "1")


def test_the_words_of_a_result():
    costs = {"parameters": {"teacher": 4000, "student": 1000}, "images_per_second": {"teacher": 50.0, "student": 200.0}}
    found = {"metric": "recall_at_1", "teacher": 0.8, "student": 0.72, "kept": 0.9, **costs}
    assert kept_in_words({"distillation": found}) == (
        "The student has Recall@1 72.0% on the test set, and its teacher 80.0%: it keeps 90.0%. It has 1,000 "
        "parameters, 25.0% of the teacher's, and embeds 200 images per second here, 4.0 times as many."
    )
    costs["parameters"]["teacher"] = None
    found |= {"student_in_teacher": {"recall_at_1": 0.75}}
    assert kept_in_words({"distillation": found}) == (
        "The student has Recall@1 72.0% on the test set, and its teacher 80.0%: it keeps 90.0%. Searching the "
        "teacher's embeddings with the student's gives 75.0%."
    )
    assert kept_in_words({}) == "" == kept_in_words({"distillation": costs})
