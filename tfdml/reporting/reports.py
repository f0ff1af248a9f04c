"""Reports of a run, of several runs, and of an ensemble: an HTML page and its figures."""

import logging
import string
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfdml import registry
from tfdml.evaluation.comparison import compare, compare_all, right_by_all
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import class_intervals
from tfdml.files.checked import naming
from tfdml.reporting import page, tables
from tfdml.reporting.gallery import gallery_of_several
from tfdml.reporting.page import html
from tfdml.reporting.run_page import state, subject_of, titled_curves, write_page, write_text
from tfdml.reporting.tables import is_score, number, titled
from tfdml.reporting.tables import score as scored
from tfdml.run.directory.run_directory import RunDirectory, environment, groups_of
from tfdml.run.directory.run_record import EnsembleDirectory, Record
from tfdml.run.experiment.comparison import check_alike, means_over_queries
from tfdml.run.experiment.experiment import AMONG_RUNS

# Largest number of characters of a run's name that are shown.
LONGEST = 24
OF_SEVERAL = (
    "If a group has several runs, its metrics are means, followed by ± and the standard deviation over the runs. The "
    "values of a query are averaged before they are compared. Curves are means at the steps that all runs have. A "
    "query counts as right if it is right in all runs, and the neighbors shown are those of the first run."
)


def write_comparison(groups, path, changes=()):
    """Writes a page that compares groups of run directories, all evaluated with the settings of the first run.

    All runs must use the same dataset. If a group has several runs, the page shows their means. `changes` are settings
    to replace.
    """
    records = {name: list(map(Record.of, group)) for name, group in zip(_names(groups), groups, strict=True)}
    subjects = _subjects(records, dict(changes))
    firsts = {name: group[0] for name, group in subjects.items()}
    metrics = means_over_queries(next(iter(firsts.values())).experiment.splits.protocol)
    measured = list(({"recall_at_1": metric_of("recall_at_1")} | {metric.name: metric for metric in metrics}).values())
    scores = {
        name: [run.experiment.splits.protocol.scores(run.embeddings, run.test, measured) for run in group]
        for name, group in subjects.items()
    }
    right, alone = right_by_all(scores)
    queries, labels = next(iter(scores.values()))[0].queries, next(iter(firsts.values())).test.labels
    if len(scores) > 2:
        differences = tables.pairs_table(compare_all(scores, metrics, labels[queries]))
    else:
        differences = tables.differences_table(*scores, compare(*scores.values(), metrics, labels[queries]))
    gallery = gallery_of_several(firsts, queries, alone)
    counts = {name: (int(right[name].sum()), int(alone[name].sum())) for name in right}
    several = any(len(group) > 1 for group in groups)
    members = _members_of(records)
    sections = {
        "Settings": page.joined(
            tables.compared_runs(
                {name: merged([record.main() for record in group]) for name, group in records.items()},
                {name: merged([record.flags() for record in group]) for name, group in records.items()},
            ),
            page.paragraph(OF_SEVERAL) if several else None,
        ),
        "Scores": _scores_table(scores, metrics, labels),
        "Differences": page.joined(differences, tables.right_table(counts, len(queries))),
        "Training": page.curve_figures(overlaid(records)),
        "Queries and neighbors": tables.gallery(gallery),
        "Reproduce these runs": page.joined(
            *(html.reproduce(record.command(), {"Run": str(record.run.path)}) for _, record in members),
            html.pairs(environment()),
        ),
    }
    states = {f"{name} ({record.run.path}). {state(record)}": not record.result for name, record in members}
    title = f"Comparison of {len(states)} runs on {next(iter(records.values()))[0].settings.data.dataset}"
    write_text(page.document(title, states, sections, {"gallery": gallery}), path)


def merged(several):
    """Returns the flags of several runs as the flags of one run. Values that differ are joined."""
    return {name: ", ".join(dict.fromkeys(str(flags[name]) for flags in several)) for name in several[0]}


def mean_curve(curves):
    """Returns the mean of curves `(steps, values)` at the steps that all of them have."""
    values = [dict(zip(*curve, strict=True)) for curve in curves]
    steps = sorted(set.intersection(*map(set, values)))
    return steps, [float(np.mean([curve[step] for curve in values])) for step in steps]


def _names(groups):
    """Returns a name for each group: a letter, and the start of its first folder's name."""
    names = [Path(group[0]).resolve().name for group in groups]
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    more = [f" and {len(group) - 1} more" if len(group) > 1 else "" for group in groups]
    return [f"{letter}: {name}{rest}" for letter, name, rest in zip(string.ascii_uppercase, short, more, strict=False)]


def _members_of(groups):
    return [(name, member) for name, group in groups.items() for member in group]


def _subjects(records, changes):
    first = next(iter(records.values()))[0].settings.evaluation
    changes = {**AMONG_RUNS, **changes, "protocol": first.protocol, "metrics": first.metrics}
    subjects = {name: [subject_of(record, changes) for record in group] for name, group in records.items()}
    for (_, record), (_, subject) in zip(_members_of(records), _members_of(subjects), strict=True):
        if subject is None:
            raise ValueError(f"The run in {record.run.path} has no model yet. Compare it after its first evaluation.")
    check_alike({str(subject.run.path): subject.experiment for _, subject in _members_of(subjects)})
    return subjects


def _scores_table(scores, metrics, labels):
    means = {name: Scores.mean(group) for name, group in scores.items()}
    deviations = {
        name: {metric.name: float(np.std([run.values[metric.name] for run in group], ddof=1)) for metric in metrics}
        for name, group in scores.items()
        if len(group) > 1
    }
    return tables.scores_table(
        "Test split, best model of each run",
        {name: {metric.name: mean.values[metric.name] for metric in metrics} for name, mean in means.items()},
        {name: class_intervals(mean, labels) for name, mean in means.items()},
        deviations,
    )


def overlaid(records):
    """Returns charts from a metric to the mean curve of each group, if all runs of a group have the metric."""
    charts = {}
    for name, group in records.items():
        of_runs = [
            {
                metric + unit: curve
                for _, unit, curves in titled_curves(record.events)
                for metric, curve in curves.items()
            }
            for record in group
        ]
        for metric in of_runs[0]:
            if all(metric in curves for curves in of_runs):
                charts.setdefault(metric, {})[name] = mean_curve([curves[metric] for curves in of_runs])
    return charts


TEXT = (
    "The ensemble in {path} is not joined yet: {complete} of {count} members that have started are complete. When "
    "all are complete, repeat the command that trains them. The report then shows scores, queries and figures of the "
    "ensemble. Until then, --run_dir={path}/{first} reports a single member."
)


def write_members_page(run, path):
    """Writes a page about an ensemble with members that still train: their progress and their curves."""
    records = {member.path.name: Record.of(member.path) for member in run.begun()}
    complete = sum(bool(record.result) for record in records.values())
    text = TEXT.format(path=run.path, complete=complete, count=len(records), first=next(iter(records)))
    sections = {
        "Members": _members_table(records),
        "Training": page.curve_figures(overlaid({name: [record] for name, record in records.items()})),
        "Settings": tables.compared_runs(
            {name: record.main() for name, record in records.items()},
            {name: record.flags() for name, record in records.items()},
        ),
    }
    title = f"{run.path.resolve().name}: members of an ensemble"
    write_text(page.document(title, {text: True}, sections, {"gallery": None}), path)


def _members_table(records):
    rows, shown = [], "score"
    for name, record in records.items():
        state = "complete" if record.result else "training" if record.is_training() else "stopped"
        metric = _selecting(record)
        best = metric and record.best_evaluation(metric)
        score, step = (best[metric], best["step"]) if best else (None, None)
        if best and shown == "score":
            shown = metric
        rows.append([name, state, *map(number, (record.step, record.steps())), scored(metric, score), number(step)])
    head = ["Member", "State", "Step", "of", f"Best {titled(shown)} while training", "at step"]
    return html.table(head, rows, "Progress of each member", "numbers")


def _selecting(record):
    """Returns the metric that selects the best model: --select_by, or the first that can. None if unknown."""
    if record.settings.evaluation.select_by:
        return record.settings.evaluation.select_by
    first = next((event for event in record.events if event["event"] == "evaluation"), {})
    for name in first:
        try:
            if is_score(name, first) and metric_of(name).larger_is_better:
                return name
        except ValueError:
            # A user's own metric may have a different name in --metrics.
            return name
    return None


LOG = logging.getLogger(__name__)
# The name of the page in --only.
PAGE = "page"


def report_run(run_dir, only, out, changes, chosen):
    """Draws figures of a run and writes its page. Returns its `Settings` if the run is complete, and otherwise None.

    `only` contains specs of figures, and `page`. If it is empty, all figures that the run has and the page are written.
    The page is written to `out`, or by default to `index.html` in the report folder of the run. `changes` are settings
    that replace the run's settings. `chosen` may contain the numbers of the `channels` and `learners` for which
    attention is drawn.
    """
    own = changes.get("import_modules", ())
    # Check the names first. If a user's modules may define figures, this waits until TensorFlow is set up, because
    # importing them may compute something.
    pictures = None if own else pictures_of(only, chosen)
    ensemble, path = EnsembleDirectory(run_dir), Path(out or RunDirectory(run_dir).report / "index.html")
    if not ensemble.has_flags and ensemble.begun() and set(only) <= {PAGE}:
        write_members_page(ensemble, path)
        LOG.info("Wrote %s", path)
        return None
    record = Record.of(run_dir)
    subject = subject_of(record, changes)
    if pictures is None:
        registry.import_modules(own)
        pictures = pictures_of(only, chosen)
    drawn = _draw(record, subject, pictures, only)
    if PAGE in only or not only:
        write_page(record, subject, drawn, path)
        LOG.info("Wrote %s", path)
    return record.settings if record.result else None


def report_comparison(run_dirs, out, changes):
    """Writes a page that compares runs and returns its path.

    `run_dirs` are run directories, or several per group: `A0,A1:B0,B1`. The default path is `comparison.html` in the
    report folder of the first run.
    """
    groups = groups_of(run_dirs)
    path = Path(out or RunDirectory(groups[0][0]).report / "comparison.html")
    write_comparison(groups, path, changes)
    return path


def pictures_of(only, chosen):
    """Returns name to `Picture`: the requested ones in their order, or by default all that are drawn without a name."""
    things = registry.registered("picture")
    known = sorted(things, key=lambda name: (things[name].place, name))
    found = {}
    for spec in _whole(only) or [name for name in known if not things[name].if_named]:
        name = registry.parse(spec)[0][0]
        if name not in (PAGE, *known):
            raise ValueError(
                f"Unknown picture {name!r} in --only. Expected one of: {', '.join(known)}, or {PAGE} for the page."
            )
        if name != PAGE:
            found[name] = registry.create("picture", spec, **chosen)
    return found


def _whole(pieces):
    """Joins the pieces of a flag that was split at commas, also between the arguments of a spec."""
    specs, begun = [], []
    for piece in pieces:
        begun.append(piece)
        spec = ",".join(begun)
        if spec.count("(") <= spec.count(")"):
            specs.append(spec)
            begun = []
    return specs + [",".join(begun)] * bool(begun)


def _draw(record, subject, pictures, asked):
    """Draws the figures that a run has and returns path to caption for those that the page shows.

    If `asked`, a figure that the run does not have is an error. Without a subject, nothing is drawn.
    """
    there = {name: picture for name, picture in pictures.items() if subject and picture.can_be_drawn(subject)}
    missing = [f"{name!r} for {picture.of}" for name, picture in pictures.items() if name not in there]
    if asked and missing:
        listed = ", and ".join(missing)
        raise ValueError(f"The run in {record.run.path} lacks pictures that --only names. There are pictures {listed}.")
    drawn, captions, folder = [], {}, record.run.report
    for name, picture in there.items():
        folder.mkdir(exist_ok=True)
        with naming(folder):
            paths = picture.draw(subject, folder)
        for path in paths:
            LOG.info("Wrote %s", path)
        paths = [path for path in paths if path.suffix == ".png"]
        drawn += paths
        captions |= {path: caption_of(name, picture, path) for path in paths if picture.on_page}
    if drawn:
        step = record.best_step(subject.experiment.monitor)
        with tf.summary.create_file_writer(str(record.run.tensorboard_of("report"))).as_default():
            for path in drawn:
                tf.summary.image(path.stem, tf.io.decode_png(path.read_bytes(), channels=3)[None], step=step)
    return captions


def caption_of(name, picture, path):
    """Returns the caption of a file of the figure with this name."""
    own = {name: registry.summaries("picture")[name].removesuffix(".")}
    return {**own, **picture.captions}.get(path.stem, path.stem.replace("_", " ").capitalize())
