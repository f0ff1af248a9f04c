"""The page that compares several runs, or groups of runs that differ in their seed."""

import string
from pathlib import Path

import numpy as np

from tfdml.evaluation.comparison import compare, compare_all, right_by_all
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import class_intervals
from tfdml.reporting import page
from tfdml.reporting.gallery import gallery_of_several
from tfdml.reporting.pictures.training import training_curves
from tfdml.reporting.run_page import state, subject_of, write_text
from tfdml.run.directory.run_directory import environment
from tfdml.run.directory.run_record import Record
from tfdml.run.experiment.comparison import check_alike, means_over_queries

# Characters of a run's name that are shown.
LONGEST = 24
OF_SEVERAL = (
    "Of several runs, metrics are means, with the standard deviation over the runs behind ±; values of a query are "
    "averaged before they are compared. Curves are means at the steps that all of them have. A query is right if it is "
    "right in all of them; the neighbors shown are those that the first one finds."
)


def write_comparison(groups, path, changes=()):
    """Writes the page that compares runs, all of them measured as the first one says.

    Args:
        groups: lists of run directories, all of one dataset; of each list the page shows means.
        path: the HTML file.
        changes: settings to replace, name to value.
    """
    records = {name: list(map(Record.of, group)) for name, group in zip(_names(groups), groups, strict=True)}
    subjects = _subjects(records, dict(changes))
    firsts = {name: group[0] for name, group in subjects.items()}
    metrics = means_over_queries(next(iter(firsts.values())).experiment.splits.protocol)
    scores = _scores(subjects, metrics)
    right, alone = right_by_all(scores)
    queries, labels = next(iter(scores.values()))[0].queries, next(iter(firsts.values())).test.labels
    gallery = gallery_of_several(firsts, queries, alone)
    counts = {name: (int(right[name].sum()), int(alone[name].sum())) for name in right}
    several = any(len(group) > 1 for group in groups)
    sections = {
        "What was run": page.joined(
            page.compared_runs(
                {name: merged([record.main() for record in group]) for name, group in records.items()},
                {name: merged([record.flags() for record in group]) for name, group in records.items()},
            ),
            page.element("p", OF_SEVERAL) if several else None,
        ),
        "Scores": _scores_table(scores, metrics, labels),
        "Differences": page.joined(
            _differences(scores, metrics, labels[queries]), page.right_table(counts, len(queries))
        ),
        "Training": page.curve_figures(overlaid(records)),
        "Queries and neighbors": page.gallery(gallery),
        "How to reproduce": page.joined(
            *(page.reproduce(record.command(), {"Run": str(record.run.path)}) for _, record in _each(records)),
            page.pairs(environment()),
        ),
    }
    states = {f"{name} ({record.run.path}). {state(record)}": not record.result for name, record in _each(records)}
    title = f"Comparison of {len(states)} runs on {next(iter(records.values()))[0].settings.data.dataset}"
    write_text(page.document(title, states, sections, {"gallery": gallery}), path)


def merged(several):
    """Returns the flags of several runs as those of one, values that differ beside each other."""
    return {name: ", ".join(dict.fromkeys(str(each[name]) for each in several)) for name in several[0]}


def mean_curve(curves):
    """Returns the mean of curves `(steps, values)` at the steps that all of them have."""
    values = [dict(zip(*curve, strict=True)) for curve in curves]
    steps = sorted(set.intersection(*map(set, values)))
    return steps, [float(np.mean([each[step] for each in values])) for step in steps]


def _names(groups):
    """Returns a name for each group: a letter, and the beginning of its first folder's name."""
    names = [Path(group[0]).resolve().name for group in groups]
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    more = [f" and {len(group) - 1} more" if len(group) > 1 else "" for group in groups]
    return [f"{letter}: {name}{rest}" for letter, name, rest in zip(string.ascii_uppercase, short, more, strict=False)]


def _each(groups):
    """Pairs the name of a group with each of its members."""
    return [(name, member) for name, group in groups.items() for member in group]


def _subjects(records, changes):
    first = next(iter(records.values()))[0].settings.evaluation
    # TensorFlow is set up once for all of them.
    changes = {"deterministic": True, "jit_compile": False, **changes}
    changes |= {"protocol": first.protocol, "metrics": first.metrics}
    subjects = {name: [subject_of(record, changes) for record in group] for name, group in records.items()}
    for (_, record), (_, subject) in zip(_each(records), _each(subjects), strict=True):
        if subject is None:
            raise ValueError(f"The run in {record.run.path} has no model to compare yet.")
    check_alike({str(each.run.path): each.experiment for _, each in _each(subjects)})
    return subjects


def _scores(subjects, metrics):
    by_name = {"recall_at_1": metric_of("recall_at_1")} | {metric.name: metric for metric in metrics}
    wanted = list(by_name.values())
    return {
        name: [each.experiment.splits.protocol.scores(each.embeddings, each.test, wanted) for each in group]
        for name, group in subjects.items()
    }


def _scores_table(scores, metrics, labels):
    means = {name: Scores.mean(group) for name, group in scores.items()}
    deviations = {
        name: {metric.name: float(np.std([each.values[metric.name] for each in group], ddof=1)) for metric in metrics}
        for name, group in scores.items()
        if len(group) > 1
    }
    return page.scores_table(
        "Test split, best models",
        {name: {metric.name: each.values[metric.name] for metric in metrics} for name, each in means.items()},
        {name: class_intervals(each, labels) for name, each in means.items()},
        deviations,
    )


def _differences(scores, metrics, classes):
    if len(scores) > 2:
        return page.pairs_table(compare_all(scores, metrics, classes))
    (first, baseline), (second, other) = scores.items()
    return page.differences_table(first, {second: compare(baseline, other, metrics, classes)})


def overlaid(records):
    """Returns metric to name of a group to its mean curve; only of metrics that all runs of the group have."""
    charts = {}
    for name, group in records.items():
        of_runs = [_curves(record) for record in group]
        for metric in of_runs[0]:
            if all(metric in curves for curves in of_runs):
                charts.setdefault(metric, {})[name] = mean_curve([curves[metric] for curves in of_runs])
    return charts


def _curves(record):
    """Returns metric to its curve `(steps, values)`."""
    charts = training_curves(record.events).values()
    return {page.titled(metric): curve for curves in charts for metric, curve in curves.items()}
