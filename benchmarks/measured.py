"""Measures runs of a study once more while their models are there, for tables that are printed where they are not."""

import json
from pathlib import Path

import numpy as np

FILE = "measured.json"


def measure(run_dir, which, learners=0):
    """Measures a run's model on its test split, and keeps it in the run's folder.

    Args:
        run_dir: path of a complete run.
        which: `best` or `final` model.
        learners: 0: learners are not measured. Otherwise they are, and of one embedding as many slices as if they were
            learners.
    """
    path = Path(run_dir) / FILE
    known = json.loads(path.read_text()) if path.exists() else {}
    if not _has_models(run_dir) or (known.get("model") == which and (not learners or "learners" in known)):
        return
    # Only here, because it starts TensorFlow.
    from tfdml.run.experiment import trained
    from tfdml.run.result import diversity_of

    changes = {"deterministic": True, "jit_compile": False, "metrics": ["recall_at_1"]}
    experiment, model = trained(run_dir, which, changes)
    test = experiment.splits.test
    embeddings = experiment.embed(model, test)
    classes = experiment.scores(embeddings, test).per_class(test.labels)
    found = {
        "model": which,
        "queries": [each["queries"] for each in classes.values()],
        "right": [round(each["recall_at_1"] * each["queries"]) for each in classes.values()],
    }
    if learners:
        count = learners if model.learner_count == 1 else model.learner_count
        found["learners"] = diversity_of(experiment, embeddings, count) if count > 1 else None
    path.write_text(json.dumps(found) + "\n")


def measured(run_dir):
    """Returns what `measure` kept of a run: the queries of each test class, how many were right, and learners."""
    path = Path(run_dir) / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing, and so is the run's model: its record is of an older study. Delete the folder and the "
            "record, so that the run is trained again."
        )
    return json.loads(path.read_text())


def difference(first, second):
    """Returns how much higher Recall@1 of the second runs is, with its 95 % interval, in percent.

    Args:
        first, second: lists of run directories, each of one row's seeds, in the same order.
    """
    mean, low, high = interval(first, second)
    return f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def interval(first, second, samples=2000):
    """Returns how much higher Recall@1 of the second runs is, and the ends of its 95 % interval.

    A resample draws test classes, and seeds, with replacement. Runs with one seed have the same batches, so they are
    drawn together. With one seed the interval is over test classes alone.

    Args:
        first, second: lists of run directories, each of one row's seeds, in the same order.
        samples: number of resamples.
    """
    queries = np.array(measured(first[0])["queries"])
    gained = (_right(second) - _right(first)) / len(first)
    random = np.random.default_rng(0)
    classes = random.multinomial(len(queries), np.full(len(queries), 1 / len(queries)), samples)
    seeds = random.multinomial(len(gained), np.full(len(gained), 1 / len(gained)), samples)
    means = np.einsum("rs,sc,rc->r", seeds, gained, classes) / (classes @ queries)
    return gained.sum() / queries.sum(), *np.quantile(means, [0.025, 0.975])


def recall(run_dirs):
    """Returns the mean Recall@1 of runs."""
    return _right(run_dirs).mean(axis=0).sum() / np.sum(measured(run_dirs[0])["queries"])


def _right(run_dirs):
    """How many queries of each test class were right in each run: `[runs, classes]`."""
    return np.array([measured(run_dir)["right"] for run_dir in run_dirs])


def _has_models(run_dir):
    return any(Path(run_dir).glob("*.keras"))
