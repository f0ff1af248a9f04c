"""`python -m tfdml.threshold`: thresholds against loops over pairs, of embeddings and of runs, and what it refuses."""

import json

import numpy as np
import pytest

from tests.commands import assert_one_error, last_json, ok, run
from tests.evaluation.naive_pairs import example, naive_pairs
from tests.run_helpers import train_flags
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.verification.pairs import RetrievalPairs
from tfdml.evaluation.verification.thresholds import fit_threshold
from tfdml.run.experiment.threshold import threshold_of
from tfdml.serving.model_card import read_card, write_card


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("rule", [{"far": 0.1}, {"far": 0.002}, {"precision": 0.5}, {"precision": 0.9}], ids=str)
@pytest.mark.few_by_day(2)
def test_no_threshold_accepts_more_pairs(rule, distance):
    embeddings, labels = example(3, spread=0.4)
    scores, same, _ = naive_pairs(embeddings, labels, distance=distance)
    allowed = []
    for threshold in scores:
        accepted = scores >= threshold
        if "far" in rule:
            fits = np.mean(accepted[~same]) <= rule["far"]
        else:
            fits = np.mean(same[accepted]) >= rule["precision"]
        if fits:
            allowed.append((np.sum(accepted & same), np.sum(accepted & ~same)))
    found = fit_threshold(RetrievalPairs.of(embeddings, RetrievalTask.of(labels), distance), **rule, samples=100)
    accepted = scores >= found["threshold"]
    assert (np.sum(accepted & same), np.sum(accepted & ~same)) == max(allowed)
    assert found["accepted"] == {"same": np.sum(accepted & same), "different": np.sum(accepted & ~same)}
    assert found["pairs"] == {"same": np.sum(same), "different": np.sum(~same)}
    assert found["precision"] == pytest.approx(np.mean(same[accepted]))
    assert found["false_accept_rate"] == pytest.approx(np.mean(accepted[~same]))
    assert found["interval"][0] < found["threshold"] < found["interval"][1]


def test_more_classes_make_the_interval_narrower():
    widths = []
    for classes in (15, 120):
        embeddings, labels = example(1, rows=4 * classes, classes=classes)
        pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
        low, high = fit_threshold(pairs, far=0.05, samples=200)["interval"]
        widths.append(high - low)
    assert widths[1] < 0.7 * widths[0]


def test_rates_that_so_few_pairs_cannot_show():
    pairs = RetrievalPairs.of(np.eye(4)[[0, 0, 1, 1]], RetrievalTask.of([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="needs at least one pair of the same class and 1,000 pairs of different"):
        fit_threshold(pairs, far=0.001)
    for classes, least in ((2, "0.25"), (3, "0.084"), (25, "0.00084")):
        labels = np.repeat(np.arange(classes), 2)
        pairs = RetrievalPairs.of(np.eye(classes)[labels], RetrievalTask.of(labels))
        with pytest.raises(ValueError, match=f"Set --far={least} or more, or use images of more classes"):
            fit_threshold(pairs, far=1e-5)
        assert fit_threshold(pairs, far=float(least), samples=100)["pairs"]["different"] >= 1 / float(least)
    wrong = RetrievalPairs.of(np.eye(4)[[0, 1, 0, 1]], RetrievalTask.of([0, 0, 1, 1]))
    with pytest.raises(ValueError, match=r"accepts any pair with a precision of 0.9. The highest possible is 0.333"):
        fit_threshold(wrong, precision=0.9)
    with pytest.raises(ValueError, match="false accept rate of 0.3, because the most similar pair is of different"):
        fit_threshold(wrong, far=0.3)


@pytest.fixture
def archive(tmp_path):
    embeddings, labels = example(5, rows=160, classes=40)
    np.savez(tmp_path / "validation.npz", embeddings=embeddings, labels=labels)
    return tmp_path / "validation.npz"


def test_the_command_fits_embeddings(archive):
    done = run("tfdml.threshold", f"--embeddings={archive}", "--far=0.01", "--samples=200")
    found = last_json(done)
    arrays = np.load(archive)
    pairs = RetrievalPairs.of(arrays["embeddings"], RetrievalTask.of(arrays["labels"]))
    assert found["threshold"] == fit_threshold(pairs, far=0.01, samples=200)["threshold"]
    assert found["protocol"] == "self_retrieval" and found["far"] == 0.01 and "run_dir" not in found
    limit = f"Accept pairs with a similarity of at least {found['threshold']:.4f} (95% CI over 40 classes: "
    assert done.stdout.startswith(limit) and "pairs of the same class (" in done.stdout
    given = (f"--embeddings={archive}", "--far=0.05", "--samples=100")
    done = run("tfdml.threshold", *given, "--protocol=self_retrieval(distance='euclidean')")
    found, low, high = last_json(done), *(-bound for bound in reversed(last_json(done)["interval"]))
    assert found["threshold"] < 0 and f"distance of at most {-found['threshold']:.4f} (" in done.stdout
    assert f"(95% CI over 40 classes: {low:.4f} to {high:.4f})." in done.stdout


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "Set exactly one of --run_dir and --embeddings. Received: neither"),
        (["--run_dir=a", "--embeddings=b"], "Received: both"),
        (["--embeddings=a.npz"], "Set exactly one of --far and --precision to a number between 0 and 1"),
        (["--embeddings=a.npz", "--far=0.1", "--precision=0.9"], "Set exactly one of --far and --precision"),
        (["--embeddings=a.npz", "--far=1"], "between 0 and 1"),
        (["--embeddings=a.npz", "--far=0.1", "--split=test"], "--split has no effect here"),
        (["--run_dir=a", "--far=0.1", "--labels=b.npy"], "--labels has no effect here"),
        (
            ["--embeddings=a.npz", "--far=0.1", "--into=b"],
            "--into needs --embeddings to be a folder written by tfdml.embed",
        ),
    ],
)
def test_bad_flags_are_told(flags, words):
    assert_one_error(run("tfdml.threshold", *flags), words)


@pytest.mark.slow
@pytest.mark.few_by_day(1)
def test_a_run_without_validation_classes_says_what_it_is_fitted_on(finished):
    given = (f"--run_dir={finished}", "--far=0.05", "--samples=100")
    done = run("tfdml.threshold", *given)
    assert_one_error(done, "has no validation classes", "--evaluate_on=validation, or use --split=test")
    done = run("tfdml.threshold", *given, "--split=test")
    assert "The threshold was fitted on the test classes, so these rates are optimistic." in done.stdout
    assert last_json(done)["split"] == "test"


@pytest.mark.nightly
def test_a_run_gets_the_threshold_of_its_validation_classes(tmp_path, caplog):
    folder = tmp_path / "run"
    done = ok("tfdml.train", *train_flags(folder, "--evaluate_on=validation", "--metrics=roc_auc,recall_at_1"))
    best = json.loads((folder / "result.json").read_text())["validation"]["best"]
    done = run("tfdml.threshold", f"--run_dir={folder}", "--far=0.05", "--samples=100")
    found = last_json(done)
    assert json.loads((folder / "threshold.json").read_text()) == found
    assert found["split"] == "validation" and found["classes"] == 2 and "roc_auc" in best
    assert "optimistic" not in done.stdout
    assert threshold_of(folder, "best").value == found["threshold"] and threshold_of(folder, "final") is None
    done = ok("tfdml.export", f"--run_dir={folder}", f"--out={tmp_path}/exported")
    metadata = json.loads((tmp_path / "exported" / "metadata.json").read_text())
    assert metadata["threshold"]["threshold"] == found["threshold"] and "run_dir" not in metadata["threshold"]
    assert f"| threshold | {found['threshold']:.4f};" in (tmp_path / "exported/README.md").read_text()
    # In the other order, the model gets its threshold afterwards.
    card = {name: value for name, value in metadata.items() if name != "threshold"}
    write_card(tmp_path / "exported", card)
    done = run("tfdml.threshold", f"--run_dir={folder}", "--far=0.05", "--samples=100", f"--into={tmp_path}/exported")
    assert last_json(done) == found
    assert read_card(tmp_path / "exported") == metadata
    model = (folder / "model.keras").read_bytes()
    (folder / "model.keras").write_bytes(b"another model")
    assert threshold_of(folder, "best") is None and "belongs to a different best model" in caplog.text
    (folder / "model.keras").write_bytes(model)
    (folder / "threshold.json").write_text("[]")
    assert_one_error(
        run("tfdml.export", f"--run_dir={folder}", f"--out={tmp_path}/again"),
        "threshold.json is damaged",
        "Fit the threshold again.",
    )
