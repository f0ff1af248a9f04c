"""Results of a study's runs in one file, which later commands read and extend."""

import json
import logging
from pathlib import Path

import numpy as np

from tfdml.console import command
from tfdml.console.settings import names_of_paths, names_with, values_of
from tfdml.evaluation.statistics import Seeds, all_pairs, degrees_of
from tfdml.files.checked import read_record, whole_folder, write_record
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory

FILE = "measured.json"
MEASURE_AGAIN = "If you remove it, the study measures the run again."
AGAIN = "Delete the folder and the record to train the run again."


def measure(run_dir, which, learners=0, elsewhere=None):
    """Measures the `best` or `final` model of a complete run on its test split and stores the result in its folder.

    If `learners` is not 0, learners are measured as well. A model with a single embedding is divided into that many
    slices, which count as learners. `elsewhere` maps names of other datasets to their `dataset` and `data_dir`. The
    model is measured on their test images as well.
    """
    elsewhere = elsewhere or {}
    path = Path(run_dir) / FILE
    earlier = read_record(path, {}, MEASURE_AGAIN) if path.exists() else {}
    everywhere = set(elsewhere) <= set(earlier.get("elsewhere", {}))
    complete = earlier.get("model") == which and (not learners or "learners" in earlier) and everywhere
    digest = sha256_of(RunDirectory(run_dir), which)
    if earlier and not complete and digest is None:
        missing = "its learners" if "learners" not in earlier and learners else "all other datasets"
        without = "" if "learners" in earlier and everywhere else f" without {missing}"
        raise ValueError(
            f"{path} describes the {earlier.get('model')} model{without}, and the run has no model to measure again. "
            f"{AGAIN}"
        )
    # The checksum is compared because the run may have been extended.
    if digest is None or (complete and earlier.get("sha256") == digest):
        return
    # Imported only here, because it starts TensorFlow. The study command has not yet imported the classes of models.
    command.import_package()
    from tfdml.run.experiment.experiment import AMONG_RUNS, trained
    from tfdml.run.training.result import diversity_of

    experiment, model = trained(run_dir, which, {**AMONG_RUNS, "metrics": ["recall_at_1"]})
    test = experiment.splits.test
    embeddings = experiment.embed(model, test)
    measures = {"model": which, "sha256": digest}
    if test.relations is None and test.attributes is None:
        measures |= _of_classes(experiment, embeddings)
    if learners:
        count = learners if model.learner_count == 1 else model.learner_count
        measures["learners"] = diversity_of(experiment, embeddings, count) if count > 1 else None
    if elsewhere:
        measures["elsewhere"] = {name: _on_other_images(run_dir, which, data) for name, data in elsewhere.items()}
    # The file is written at once, so that a killed study does not leave half of it.
    write_record(path, measures)


def _on_other_images(run_dir, which, data):
    """Returns what `_of_classes` returns for the test images of another dataset."""
    from tfdml.run.experiment.experiment import AMONG_RUNS, trained

    changes = {**AMONG_RUNS, **values_of("on_another_dataset"), "metrics": ["recall_at_1"], **data}
    experiment, model = trained(run_dir, which, changes)
    return _of_classes(experiment, experiment.embed(model, experiment.splits.test))


def _of_classes(experiment, embeddings):
    """Returns the number of queries and of correct queries per test class, and the groups of the classes."""
    test = experiment.splits.test
    classes = experiment.scores(embeddings, test).per_class(test.labels)
    counts = {
        "queries": [each["queries"] for each in classes.values()],
        # The number is not an integer if a query has the mean of several draws.
        "right": [round(each["recall_at_1"] * each["queries"], 6) for each in classes.values()],
    }
    groups = groups_of_test(experiment.splits.dataset, classes)
    return {**counts, "groups": groups} if groups else counts


def groups_of_test(dataset, classes):
    """Returns the group of each test class, or None without groups or if training classes share them."""
    train, test = dataset.train, dataset.test
    if test.class_groups is None or set(test.class_groups.values()) & set((train.class_groups or {}).values()):
        return None
    return np.unique([test.class_groups[label] for label in classes], return_inverse=True)[1].tolist()


def measured(run_dir):
    """Returns what `measure` stored for a run. Images with pairs or several labels have no classes."""
    path = Path(run_dir) / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} and the run's model are missing, because the record was written by an older version. {AGAIN}"
        )
    return read_record(path, {}, MEASURE_AGAIN)


def interval(first, second, samples=2000):
    """Returns the difference in Recall@1, second minus first, and the ends of its 95% confidence interval.

    `first` and `second` list, for each seed and in the same order, a run directory or the list of its folds, whose mean
    counts.

    The interval comes from resamples of the test classes with replacement. If test classes are in groups that training
    has not seen, whole groups are drawn. Errors of seeds are added. Because there are few classes and seeds, the width
    follows the t distribution; see `all_pairs`. With one seed, the interval only covers test classes.
    """
    return all_pairs(*recalls([first, second], samples)).interval(1, 0)


def compared(rows, samples=2000):
    """Compares all rows with each other by Recall@1 and returns `AllPairs`. `rows` lists runs as for `interval`.

    Two or three seeds may agree by chance. Therefore, the variance of a row's seeds counts as at least the mean
    variance of all rows.
    """
    means, resampled, degrees, seeds = recalls(rows, samples)
    if seeds is not None:
        variances = np.maximum(seeds.variances, seeds.variances.mean())
        seeds = Seeds(variances, len(rows) * seeds.degrees)
    return all_pairs(means, resampled, degrees, seeds)


def recall(run_dirs):
    """Returns the mean Recall@1 of runs."""
    seeds = _read(run_dirs)
    return _right(seeds).mean(axis=0).sum() / np.sum(seeds[0][0]["queries"])


def recalls(rows, samples=2000, variance=None):
    """Returns the mean Recall@1 of rows and their errors, as `all_pairs` expects them.

    Args:
        rows: List of runs for each row, as for `interval`.
        samples: Number of resamples of the test classes. Rows with the same classes or groups have the same resamples.
        variance: Tuple of a variance between seeds and its degrees of freedom, or None. Rows with one seed have this
            variance, for example one that other rows have. If `None`, their errors only cover test classes.

    Returns:
        The mean Recall@1 of each row, `[rows]`, and of each resample, `[samples, rows]`, the degrees of freedom of the
        classes, and the `Seeds`, or None for one seed without a variance.
    """
    rows = [_read(run_dirs) for run_dirs in rows]
    every = [fold for seeds in rows for folds in seeds for fold in folds]
    queries, groups = every[0]["queries"], every[0].get("groups")
    if len({len(seeds) for seeds in rows}) > 1 or any(each["queries"] != queries for each in every):
        raise ValueError("Rows must have the same number of runs, and all runs the same test classes.")
    if any(each.get("groups") != groups for each in every):
        raise ValueError(
            f"Every {FILE} must have the same groups of test classes. Delete the runs with different or no groups, and "
            "their records, to train them again."
        )
    queries, right = np.array(queries), np.array([_right(seeds) for seeds in rows])
    if groups:
        of_group = np.eye(max(groups) + 1)[groups]
        queries, right = queries @ of_group, right @ of_group
    count = len(queries)
    classes = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), samples)
    resampled = (right.mean(axis=1) @ classes.T / (classes @ queries)).T
    values = right.sum(axis=2) / queries.sum()
    count = values.shape[1]
    # The deviations of each row count. Deviations that rows with the same seed have in common were near 0 in all except
    # two of the 17 studies in docs/records. Removing them would leave half the degrees of freedom.
    if count > 1:
        seeds = Seeds(np.var(values, axis=1, ddof=1) / count, count - 1)
    else:
        seeds = variance and Seeds(np.full(len(rows), variance[0]), variance[1])
    return values.mean(axis=1), resampled, degrees_of(queries), seeds


def _read(run_dirs):
    """Reads the measures of the runs of each seed. Each seed has a list with one run or with its folds."""
    seeds = [run if isinstance(run, list | tuple) else [run] for run in run_dirs]
    by_run = {run_dir: measured(run_dir) for folds in seeds for run_dir in folds}
    for run_dir, measures in by_run.items():
        if "queries" not in measures:
            raise ValueError(
                f"{run_dir} has no Recall@1 per class to compare rows by, because its images have pairs or several "
                "labels. Remove --intervals and --pairwise."
            )
    return [[by_run[run_dir] for run_dir in folds] for folds in seeds]


def _right(seeds):
    """Returns the number of correct queries of each test class with each seed, `[seeds, classes]`."""
    return np.array([np.mean([fold["right"] for fold in folds], axis=0) for folds in seeds])


# Flags with places of files, which differ between machines.
PLACES = tuple(f"--{name}" for name in names_with(is_place=True))
# All flags with paths.
PATHS = tuple(f"--{name}" for name in dict.fromkeys([*names_with(is_place=True), *names_of_paths()]))

# The only one that does not change results.
CACHE = "--cache_dir"


def read(file):
    """Returns the records by the names of their runs. The last record of a run counts, because it has its measures."""
    path, records = Path(file), {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            record = json.loads(line)
            records[record["run"]] = record
        except (json.JSONDecodeError, KeyError, TypeError):
            # The study was killed while it wrote the line.
            logging.getLogger(__name__).warning("%s, line %d is not a record, so it is skipped.", path, number)
    return records


def keep(run_dir, file):
    """Adds the flags, result, learning curve and measures of a complete run to the records, unless they are there."""
    run, path = RunDirectory(run_dir), Path(file)
    name, measures = Path(run_dir).name, run.path / FILE
    result = run.result()
    if "members" in result:
        members = [_without_folder(member) for member in result["members"]]
        result = {**result, "members": members}
    record = {"run": name, "flags": [*map(_without_folders, run.serialized().values())], "result": result}
    if measures.exists():
        record["measured"] = _rounded(read_record(measures, {}, MEASURE_AGAIN))
        # Records do not contain models, so a checksum would be useless.
        record["measured"].pop("sha256", None)
    earlier = read(path).get(name)
    same = earlier and earlier["result"] == _rounded(record["result"])
    if same and record.get("measured") in (None, earlier.get("measured")):
        return
    # An ensemble has no learning curve; its members have one. Only the last step of the pair statistics is kept.
    curve, pairs = run.events("evaluation"), run.events("pairs")
    record["curve"] = curve + [event for event in pairs if event["step"] == pairs[-1]["step"]]
    path.parent.mkdir(parents=True, exist_ok=True)
    # The record is appended with a single write, because two studies may use the same file.
    with path.open("a") as records:
        is_cut = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        records.write("\n" * is_cut + json.dumps(_rounded(record)) + "\n")


def _without_folder(member):
    """Returns the record of an ensemble's member with its learning curve. Folders differ between machines."""
    # A restored ensemble has the curves of its members, but not their folders.
    curve = member.get("curve") or RunDirectory(member["run_dir"]).events("evaluation")
    return {**member, "run_dir": Path(member["run_dir"]).name, **({"curve": curve} if curve else {})}


def restore(record, run_dir, flags):
    """Creates the directory of a recorded run, without its models.

    `flags` are the current flags of the run, `{name: "--name=value"}`. Flags in `PATHS` replace the recorded flags,
    which are names without folders and must be the same. `imagenet` represents a file with ImageNet weights.
    """
    here = {path: flags[path.removeprefix("--")] for path in PATHS}
    for flag in record["flags"]:
        name = flag.partition("=")[0]
        now = here[name] if name in here and name != CACHE else flag
        values = {each.partition("=")[2] for each in (flag, _without_folders(now))}
        # `imagenet` matches any file with such a name.
        if len(values) > 1 and not ("imagenet" in values and all("imagenet" in value for value in values)):
            raise ValueError(
                f"The record of {record['run']} belongs to a run with {flag}. Received: {now}. Use the same value, or "
                "a separate file with --records."
            )
    path = Path(run_dir)
    # The folder only appears once it is complete. An incomplete run would be trained again but keep its old measures.
    with whole_folder(path, "run") as folder:
        run = RunDirectory(folder)
        run.claim(dict(enumerate(here.get(flag.partition("=")[0], flag) for flag in record["flags"])))
        run.metrics.write_text("".join(json.dumps(event) + "\n" for event in record["curve"]))
        if "measured" in record:
            write_record(run.path / FILE, record["measured"])
        run.write_result(record["result"])


def check_images(run_dir, flags):
    """Raises an error if an existing run has images from a folder with another name, or other ignored images."""
    run = RunDirectory(run_dir)
    there = run.serialized() if run.has_flags else flags
    for name in ("data_dir", "ignore_images"):
        if _file_name(there[name]) != _file_name(flags[name]):
            raise ValueError(
                f"The run in {run_dir} was trained with {there[name]}. Received: {flags[name]}. Use the same value, or "
                "another folder with --runs."
            )


def _file_name(flag):
    return Path(flag.partition("=")[2]).name


def _without_folders(flag):
    """Returns a flag in `PATHS` with only the name of its file. Other flags remain unchanged."""
    name, _, value = flag.partition("=")
    return f"{name}={Path(value).name}" if name in PATHS else flag


def _rounded(value):
    """Returns values with floats rounded to six digits, which is more than the precision of results."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
