"""Measures runs of a study once more while their models are there, for tables that are printed where they are not."""

import json
from pathlib import Path

import numpy as np

from tfdml.console import command
from tfdml.evaluation.statistics import Seeds, all_pairs, degrees_of
from tfdml.files.checked import write_atomically
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory

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
    digest = sha256_of(RunDirectory(run_dir), which)
    if known and not complete and digest is None:
        raise ValueError(
            f"{path} is of the {known.get('model')} model{'' if 'learners' in known else ' without its learners'}, and "
            "there is no model to measure again. Delete the folder and the record, so that the run is trained again."
        )
    # A run may have become longer since.
    if digest is None or (complete and known.get("sha256") == digest):
        return
    # Only here, because it starts TensorFlow. A study's command has postponed the classes that a model's file names.
    command.import_package()
    from tfdml.run.experiment.experiment import trained
    from tfdml.run.training.result import diversity_of

    changes = {"deterministic": True, "jit_compile": False, "metrics": ["recall_at_1"]}
    experiment, model = trained(run_dir, which, changes)
    test = experiment.splits.test
    embeddings = experiment.embed(model, test)
    found = {"model": which, "sha256": digest}
    if test.relations is None and test.attributes is None:
        found |= _of_classes(experiment, embeddings)
    if learners:
        count = learners if model.learner_count == 1 else model.learner_count
        found["learners"] = diversity_of(experiment, embeddings, count) if count > 1 else None
    # A study that is killed meanwhile would find half of it.
    write_atomically(path, f"{json.dumps(found)}\n".encode())


def _of_classes(experiment, embeddings):
    """The queries of each test class, how many were right, and the groups of the classes."""
    test = experiment.splits.test
    classes = experiment.scores(embeddings, test).per_class(test.labels)
    found = {
        "queries": [each["queries"] for each in classes.values()],
        # Not whole where a query has the mean of several draws.
        "right": [round(each["recall_at_1"] * each["queries"], 6) for each in classes.values()],
    }
    groups = groups_of_test(experiment.splits.dataset, classes)
    return {**found, "groups": groups} if groups else found


def groups_of_test(dataset, classes):
    """Returns the number of each test class' group, or None where they have none, or training has the same ones.

    Args:
        dataset: the `Dataset`.
        classes: numbers of the test classes that have queries.
    """
    train, test = dataset.train, dataset.test
    if test.class_groups is None or set(test.class_groups.values()) & set((train.class_groups or {}).values()):
        return None
    return np.unique([test.class_groups[label] for label in classes], return_inverse=True)[1].tolist()


def measured(run_dir):
    """Returns what `measure` kept of a run.

    That is the queries of each test class, how many were right, groups of the classes if there are, and learners.
    Images with pairs or several labels have no classes.
    """
    path = Path(run_dir) / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing, and so is the run's model: its record is of an older study. Delete the folder and the "
            "record, so that the run is trained again."
        )
    return json.loads(path.read_text())


def interval(first, second, samples=2000):
    """Returns how much higher Recall@1 of the second runs is, and the ends of its 95% interval.

    A resample draws test classes with replacement; of test classes in groups that training has not seen, it draws whole
    groups. Errors of seeds are added, see `_seeds`. Because classes and seeds are few, the interval is as many standard
    errors wide as the t distribution says, see `all_pairs`. With one seed the interval is over test classes alone.

    Args:
        first, second: lists of a run directory for each seed, in the same order; or of a list of them, the folds of the
            seed, whose mean counts.
        samples: number of resamples.
    """
    return all_pairs(*_recalls([first, second], samples)).interval(1, 0)


def compared(rows, samples=2000):
    """Returns how much higher Recall@1 of each row is than that of each other: `AllPairs`, see `all_pairs`.

    Two or three seeds may agree by chance. So no row's seeds are taken to differ by less than those of the mean row,
    and all rows together say how much that is.

    Args:
        rows: for each row its runs, as `interval` takes them.
        samples: number of resamples, drawn as in `interval`.
    """
    means, resampled, degrees, seeds = _recalls(rows, samples)
    if seeds is not None:
        variances = np.maximum(seeds.variances, seeds.variances.mean())
        seeds = Seeds(variances, len(rows) * seeds.degrees)
    return all_pairs(means, resampled, degrees, seeds)


def recall(run_dirs):
    """Returns the mean Recall@1 of runs."""
    seeds = _read(run_dirs)
    return _right(seeds).mean(axis=0).sum() / np.sum(seeds[0][0]["queries"])


def _recalls(rows, samples):
    """Mean Recall@1 of each row, `[rows]`, and of each resample of test classes, `[samples, rows]`.

    Returns these, the degrees of freedom of the classes, and `_seeds`.
    """
    rows = [_read(run_dirs) for run_dirs in rows]
    every = [fold for seeds in rows for folds in seeds for fold in folds]
    queries, groups = every[0]["queries"], every[0].get("groups")
    if len({len(seeds) for seeds in rows}) > 1 or any(each["queries"] != queries for each in every):
        raise ValueError("Expected rows with as many runs each, on the same test classes.")
    if any(each.get("groups") != groups for each in every):
        raise ValueError(
            f"Expected the same groups of test classes in every {FILE}. Delete the runs that have others or none, and "
            "their records, so that they are trained again."
        )
    queries, right = np.array(queries), np.array([_right(seeds) for seeds in rows])
    if groups:
        of_group = np.eye(max(groups) + 1)[groups]
        queries, right = queries @ of_group, right @ of_group
    count = len(queries)
    classes = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), samples)
    resampled = (right.mean(axis=1) @ classes.T / (classes @ queries)).T
    recalls = right.sum(axis=2) / queries.sum()
    return recalls.mean(axis=1), resampled, degrees_of(queries), _seeds(recalls)


def _seeds(recalls):
    """`Seeds` of Recall@1 of each row and seed, `[rows, seeds]`; None of one seed.

    A row's own deviations count. Those that rows with the same seed have in common were near 0 in all but two of the
    17 studies in docs/records; to remove them would leave half the degrees of freedom.
    """
    count = recalls.shape[1]
    return None if count == 1 else Seeds(np.var(recalls, axis=1, ddof=1) / count, count - 1)


def _read(run_dirs):
    """Reads the measures of the runs of each seed: for each seed a list, of one run or of its folds."""
    return [[_with_classes(fold) for fold in (run if isinstance(run, list | tuple) else [run])] for run in run_dirs]


def _with_classes(run_dir):
    found = measured(run_dir)
    if "queries" not in found:
        raise ValueError(
            f"{run_dir} has no Recall@1 of classes, by which rows are compared: its images have pairs or several "
            "labels. Leave out --intervals and --pairwise."
        )
    return found


def _right(seeds):
    """How many queries of each test class were right with each seed: `[seeds, classes]`."""
    return np.array([np.mean([fold["right"] for fold in folds], axis=0) for folds in seeds])
