"""Results of a study's runs in one file, which a later command reads and continues."""

import json
import logging
from pathlib import Path

import numpy as np

from tfdml.console import command
from tfdml.console.settings import names_with
from tfdml.evaluation.statistics import Seeds, all_pairs, degrees_of
from tfdml.files.checked import read_record, whole_folder, write_record
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory

FILE = "measured.json"
MEASURE_AGAIN = "Remove it, and the study measures the run again."
AGAIN = "Delete the folder and the record, so that the run is trained again."


def measure(run_dir, which, learners=0):
    """Measures the `best` or `final` model of a complete run on its test split, and keeps it in the run's folder.

    With `learners`, learners are measured too, and of one embedding that many slices as if they were learners.
    """
    path = Path(run_dir) / FILE
    earlier = read_record(path, {}, MEASURE_AGAIN) if path.exists() else {}
    complete = earlier.get("model") == which and (not learners or "learners" in earlier)
    digest = sha256_of(RunDirectory(run_dir), which)
    if earlier and not complete and digest is None:
        without = "" if "learners" in earlier else " without its learners"
        raise ValueError(
            f"{path} is of the {earlier.get('model')} model{without}, and there is no model to measure again. {AGAIN}"
        )
    # A run may have become longer since.
    if digest is None or (complete and earlier.get("sha256") == digest):
        return
    # Only here, because it starts TensorFlow. A study's command has postponed the classes that a model's file names.
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
    # A study that is killed meanwhile would find half of it.
    write_record(path, measures)


def _of_classes(experiment, embeddings):
    """Returns the queries of each test class, how many were right, and the groups of the classes."""
    test = experiment.splits.test
    classes = experiment.scores(embeddings, test).per_class(test.labels)
    counts = {
        "queries": [each["queries"] for each in classes.values()],
        # Not whole where a query has the mean of several draws.
        "right": [round(each["recall_at_1"] * each["queries"], 6) for each in classes.values()],
    }
    groups = groups_of_test(experiment.splits.dataset, classes)
    return {**counts, "groups": groups} if groups else counts


def groups_of_test(dataset, classes):
    """Returns the group number of each of these test classes; None without groups, or if training has the same."""
    train, test = dataset.train, dataset.test
    if test.class_groups is None or set(test.class_groups.values()) & set((train.class_groups or {}).values()):
        return None
    return np.unique([test.class_groups[label] for label in classes], return_inverse=True)[1].tolist()


def measured(run_dir):
    """Returns what `measure` kept of a run. Images with pairs or several labels have no classes."""
    path = Path(run_dir) / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing, and so is the run's model: its record is of an older study. {AGAIN}"
        )
    return read_record(path, {}, MEASURE_AGAIN)


def interval(first, second, samples=2000):
    """Returns how much higher Recall@1 of the second runs is, and the ends of its 95% interval.

    `first` and `second` list a run directory for each seed, in the same order, or the list of its folds, whose mean
    counts.

    A resample draws test classes with replacement; of test classes in groups that training has not seen, it draws whole
    groups. Errors of seeds are added. Because classes and seeds are few, the interval is as many standard errors wide
    as the t distribution says, see `all_pairs`. With one seed the interval is over test classes alone.
    """
    return all_pairs(*_recalls([first, second], samples)).interval(1, 0)


def compared(rows, samples=2000):
    """Compares each row with each other by Recall@1, and returns `AllPairs`; `rows` lists runs as for `interval`.

    Two or three seeds may agree by chance. So no row's seeds are taken to differ by less than those of the mean row,
    and all rows together say how much that is.
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
    """Returns mean Recall@1 of each row, `[rows]`, and of each resample of test classes, `[samples, rows]`.

    After these come the degrees of freedom of the classes, and the `Seeds`, None for one seed.
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
    count = recalls.shape[1]
    # A row's own deviations count. Those that rows with the same seed have in common were near 0 in all but two of the
    # 17 studies in docs/records; to remove them would leave half the degrees of freedom.
    seeds = None if count == 1 else Seeds(np.var(recalls, axis=1, ddof=1) / count, count - 1)
    return recalls.mean(axis=1), resampled, degrees_of(queries), seeds


def _read(run_dirs):
    """Reads the measures of the runs of each seed: for each seed a list, of one run or of its folds."""
    seeds = [run if isinstance(run, list | tuple) else [run] for run in run_dirs]
    by_run = {run_dir: measured(run_dir) for folds in seeds for run_dir in folds}
    for run_dir, measures in by_run.items():
        if "queries" not in measures:
            raise ValueError(
                f"{run_dir} has no Recall@1 of classes, by which rows are compared: its images have pairs or several "
                "labels. Leave out --intervals and --pairwise."
            )
    return [[by_run[run_dir] for run_dir in folds] for folds in seeds]


def _right(seeds):
    """Returns how many queries of each test class were right with each seed: `[seeds, classes]`."""
    return np.array([np.mean([fold["right"] for fold in folds], axis=0) for folds in seeds])


# Flags that say where files are, which other machines have elsewhere.
PLACES = tuple(f"--{name}" for name in names_with(is_place=True))


def read(file):
    """Returns the records by the names of their runs: of several of one run the last, which has its measures."""
    path, records = Path(file), {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            record = json.loads(line)
            records[record["run"]] = record
        except (json.JSONDecodeError, KeyError, TypeError):
            # A study was killed while it wrote.
            logging.getLogger(__name__).warning("%s, line %d is no record, and is passed over.", path, number)
    return records


def keep(run_dir, file):
    """Adds a complete run to the records: its flags, result, learning curve and measures, unless they have these."""
    run, path = RunDirectory(run_dir), Path(file)
    name, measures = Path(run_dir).name, run.path / FILE
    result = run.result()
    if "members" in result:
        # Other machines have them in other folders.
        members = [{**each, "run_dir": Path(each["run_dir"]).name} for each in result["members"]]
        result = {**result, "members": members}
    record = {"run": name, "flags": [*map(_without_folders, run.serialized().values())], "result": result}
    if measures.exists():
        record["measured"] = _rounded(read_record(measures, {}, MEASURE_AGAIN))
        # Models are not kept.
        record["measured"].pop("sha256", None)
    earlier = read(path).get(name)
    same = earlier and earlier["result"] == _rounded(record["result"])
    if same and record.get("measured") in (None, earlier.get("measured")):
        return
    # An ensemble has no learning curve: its members have. Of what the loss found, the end is kept.
    curve, pairs = run.events("evaluation"), run.events("pairs")
    record["curve"] = curve + [event for event in pairs if event["step"] == pairs[-1]["step"]]
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write at the end of the file: two studies may have the same records.
    with path.open("a") as records:
        is_cut = path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        records.write("\n" * is_cut + json.dumps(_rounded(record)) + "\n")


def restore(record, run_dir, flags):
    """Makes the directory of a recorded run, without its models.

    `flags` are those of the run now, `{name: "--name=value"}`. Flags of `PLACES` replace the recorded ones, which are
    names without folders; `imagenet` stands for a file of such weights.
    """
    here = {place: flags[place.removeprefix("--")] for place in PLACES}
    for flag in record["flags"]:
        now = here.get(flag.partition("=")[0], flag)
        values = {each.partition("=")[2] for each in (flag, _without_folders(now))}
        # `imagenet` stands for any file with such a name.
        if len(values) > 1 and not ("imagenet" in values and all("imagenet" in value for value in values)):
            raise ValueError(
                f"The record of {record['run']} is of a run with {flag}; received {now}. Give the same, or a file of "
                "--records of its own."
            )
    path = Path(run_dir)
    # Whole or not there: a part of it would be trained again, with measures of before.
    with whole_folder(path, "run") as folder:
        run = RunDirectory(folder)
        run.claim(dict(enumerate(here.get(flag.partition("=")[0], flag) for flag in record["flags"])))
        run.metrics.write_text("".join(json.dumps(event) + "\n" for event in record["curve"]))
        if "measured" in record:
            write_record(run.path / FILE, record["measured"])
        run.write_result(record["result"])


def check_images(run_dir, flags):
    """Raises if a run that is there is of images of another folder, by its name, or without others."""
    run = RunDirectory(run_dir)
    there = run.serialized() if run.has_flags else flags
    for name in ("data_dir", "ignore_images"):
        if _file_name(there[name]) != _file_name(flags[name]):
            raise ValueError(
                f"The run in {run_dir} is of {there[name]}; received {flags[name]}. Give the same, or --runs, another "
                "folder."
            )


def _file_name(flag):
    return Path(flag.partition("=")[2]).name


def _without_folders(flag):
    """Returns a flag with the name alone of a file that other machines have elsewhere."""
    name, _, value = flag.partition("=")
    return f"{name}={Path(value).name}" if name in PLACES else flag


def _rounded(value):
    """Returns values with their floats at six digits, which is more than seeds have in common."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
