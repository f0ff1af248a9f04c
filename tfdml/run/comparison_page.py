"""The page that compares several runs."""

import string
from pathlib import Path

import numpy as np

from tfdml.evaluation.comparison import compare
from tfdml.evaluation.metrics import metric_of
from tfdml.reporting import page
from tfdml.reporting.training import training_curves
from tfdml.run.comparison import check_alike, means_over_queries
from tfdml.run.gallery import gallery_of_several
from tfdml.run.page import environment, state, subject_of, write_text
from tfdml.run.record import Record
from tfdml.run.score_tables import intervals_of

# Characters of a run's name that are shown.
LONGEST = 24


def write_comparison(run_dirs, path):
    """Writes the page that compares runs, all of them measured as the first one says.

    Args:
        run_dirs: folders of the runs, of one dataset.
        path: the HTML file.
    """
    records = dict(zip(_names(run_dirs), map(Record.of, run_dirs), strict=True))
    subjects = _subjects(records)
    metrics = means_over_queries(next(iter(subjects.values())).experiment.splits.protocol)
    scores = _scores(subjects, metrics)
    right = {name: each.per_query["recall_at_1"] > 0.5 for name, each in scores.items()}
    queries = next(iter(scores.values())).queries
    gallery = gallery_of_several(subjects, queries, right)
    sections = {
        "What was run": page.compared_runs(
            {name: record.main() for name, record in records.items()},
            {name: record.flags() for name, record in records.items()},
        ),
        "Scores": page.scores_table(
            "Test split, best models",
            {name: {metric.name: each.values[metric.name] for metric in metrics} for name, each in scores.items()},
            {name: intervals_of(each) for name, each in scores.items()},
        ),
        "Differences": page.joined(_differences(scores, metrics), page.right_table(_counts(right), len(queries))),
        "Training": page.curve_figures(_overlaid(records)),
        "Queries and neighbors": page.gallery(gallery),
        "How to reproduce": page.joined(
            *(page.reproduce(record.command(), {"Run": name}) for name, record in records.items()),
            page.pairs(environment()),
        ),
    }
    told = {f"{name} ({record.run.path}). {state(record)}": not record.result for name, record in records.items()}
    title = f"Comparison of {len(records)} runs on {next(iter(records.values())).settings.dataset}"
    write_text(page.document(title, told, sections, {"gallery": gallery}), path)


def _names(run_dirs):
    """Returns a name for each run: a letter, and the beginning of its folder's name."""
    if not 2 <= len(set(run_dirs)) == len(run_dirs) <= len(string.ascii_uppercase):
        raise ValueError(f"Expected 2 to 26 different runs in --run_dirs, received {','.join(run_dirs)}.")
    names = [Path(run_dir).resolve().name for run_dir in run_dirs]
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    return [f"{letter}: {name}" for letter, name in zip(string.ascii_uppercase, short, strict=False)]


def _subjects(records):
    first = next(iter(records.values())).settings
    # TensorFlow is set up once for all of them.
    changes = {"deterministic": True, "jit_compile": False, "protocol": first.protocol, "metrics": first.metrics}
    subjects = {}
    for name, record in records.items():
        subjects[name] = subject_of(record, changes)
        if subjects[name] is None:
            raise ValueError(f"The run in {record.run.path} has no model to compare yet.")
    check_alike({str(each.run.path): each.experiment for each in subjects.values()})
    return subjects


def _scores(subjects, metrics):
    by_name = {"recall_at_1": metric_of("recall_at_1")} | {metric.name: metric for metric in metrics}
    return {
        name: subject.experiment.splits.protocol.scores(subject.embeddings, subject.test, list(by_name.values()))
        for name, subject in subjects.items()
    }


def _differences(scores, metrics):
    (first, baseline), *others = scores.items()
    return page.differences_table(first, {name: compare([baseline], [each], metrics) for name, each in others})


def _counts(right):
    """Returns name to how many queries are right, and how many by this run alone."""
    times = np.sum(list(right.values()), axis=0)
    return {name: (int(each.sum()), int(np.sum(each & (times == 1)))) for name, each in right.items()}


def _overlaid(records):
    """Returns metric to name of a run to its curve."""
    charts = {}
    for name, record in records.items():
        for curves in training_curves(record.events).values():
            for metric, curve in curves.items():
                charts.setdefault(page.titled(metric), {})[name] = curve
    return charts
