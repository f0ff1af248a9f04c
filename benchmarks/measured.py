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
    complete = known.get("model") == which and (not learners or "learners" in known)
    if known and not complete and not _has_models(run_dir):
        raise ValueError(
            f"{path} is of the {known.get('model')} model{'' if 'learners' in known else ' without its learners'}, and "
            "there is no model to measure again. Delete the folder and the record, so that the run is trained again."
        )
    if complete or not _has_models(run_dir):
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
    means, resampled = _recalls([first, second], samples)
    return means[1] - means[0], *np.quantile(resampled[:, 1] - resampled[:, 0], [0.025, 0.975])


def apart(rows, samples=2000):
    """Returns which rows are better than which by more than chance: `[rows, rows]`, True where the first is better.

    With a probability of 95 % none of all pairs is called apart by chance: their intervals are as many standard errors
    wide as the largest error of a resample is in 95 % of them.

    Args:
        rows: for each row its run directories, each of one seed, in the same order.
        samples: number of resamples, drawn as in `interval`.
    """
    means, resampled = _recalls(rows, samples)
    errors = resampled - means
    differences = means[:, None] - means[None, :]
    scales = np.array([np.std(errors - errors[:, [row]], axis=0) for row in range(len(rows))])
    # Of a row and itself, and of rows that are equal in every class.
    known = np.where(scales > 1e-12, scales, np.inf)
    largest = np.max(
        [np.max(np.abs(errors - errors[:, [row]]) / known[row], axis=1) for row in range(len(rows))], axis=0
    )
    return differences > np.quantile(largest, 0.95) * scales


def recall(run_dirs):
    """Returns the mean Recall@1 of runs."""
    return _right(run_dirs).mean(axis=0).sum() / np.sum(measured(run_dirs[0])["queries"])


def _recalls(rows, samples):
    """Mean Recall@1 of each row, `[rows]`, and of each resample of test classes and seeds, `[samples, rows]`."""
    queries = [measured(run_dir)["queries"] for run_dirs in rows for run_dir in run_dirs]
    if len({len(run_dirs) for run_dirs in rows}) > 1 or any(each != queries[0] for each in queries):
        raise ValueError("Expected rows with as many runs each, on the same test classes.")
    queries, right = np.array(queries[0]), np.array([_right(run_dirs) for run_dirs in rows])
    random = np.random.default_rng(0)
    classes = random.multinomial(len(queries), np.full(len(queries), 1 / len(queries)), samples)
    seeds = random.multinomial(right.shape[1], np.full(right.shape[1], 1 / right.shape[1]), samples) / right.shape[1]
    resampled = np.einsum("bs,rsc,bc->br", seeds, right, classes, optimize=True) / (classes @ queries)[:, None]
    return right.mean(axis=1).sum(axis=1) / queries.sum(), resampled


def _right(run_dirs):
    """How many queries of each test class were right in each run: `[runs, classes]`."""
    return np.array([measured(run_dir)["right"] for run_dir in run_dirs])


def _has_models(run_dir):
    return any(Path(run_dir).glob("*.keras"))
