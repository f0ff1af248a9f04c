"""The page of an ensemble whose members are not joined yet."""

from tfdml.evaluation.metrics import metric_of
from tfdml.reporting import page
from tfdml.reporting.comparison_page import overlaid
from tfdml.reporting.page.elements import table
from tfdml.reporting.page.metric_tables import is_score, number, titled
from tfdml.reporting.run_page import write_text
from tfdml.run.directory.run_record import Record

TEXT = (
    "The ensemble in {path} is not joined yet: {complete} of {count} members that have begun are complete. When "
    "all are, repeat the command that trains them, and it has scores, queries and pictures like every run. Until then "
    "--run_dir={path}/{first} reports a member alone."
)


def write_members_page(run, path):
    """Writes the page of an ensemble that is not joined yet: how far its members are, and their curves.

    Args:
        run: `EnsembleDirectory`.
        path: the HTML file.
    """
    records = {member.path.name: Record.of(member.path) for member in run.begun()}
    complete = sum(bool(record.result) for record in records.values())
    text = TEXT.format(path=run.path, complete=complete, count=len(records), first=next(iter(records)))
    about = page.compared_runs(
        {name: record.main() for name, record in records.items()},
        {name: record.flags() for name, record in records.items()},
    )
    sections = {
        "Members": _members_table(records),
        "Training": page.curve_figures(overlaid({name: [record] for name, record in records.items()})),
        "What was run": about,
    }
    title = f"{run.path.resolve().name}: members of an ensemble"
    write_text(page.document(title, {text: True}, sections, {"gallery": None}), path)


def _members_table(records):
    best = {name: _best(record) for name, record in records.items()}
    metric = next((metric for metric, *_ in best.values() if metric), "score")
    rows = [
        [name, _state(record), _counted(record.step), _counted(record.steps()), *best[name][1:]]
        for name, record in records.items()
    ]
    head = ["Member", "State", "Step", "of", f"Best {titled(metric)} while training", "at step"]
    return table(head, rows, "How far each member is", class_="numbers")


def _state(record):
    return "complete" if record.result else "training" if record.is_training() else "stopped"


def _best(record):
    """The metric that selects the best model, its best value so far, and the step of it."""
    metric = _selecting(record)
    best = metric and record.best_evaluation(metric)
    if not best:
        return None, _counted(None), _counted(None)
    return metric, number(best[metric]), _counted(best["step"])


def _selecting(record):
    """The metric that selects the best model: --select_by, or the first of which more is better; None if unknown."""
    if record.settings.evaluation.select_by:
        return record.settings.evaluation.select_by
    first = next((event for event in record.events if event["event"] == "evaluation"), {})
    scores = [name for name in first if is_score(name, first)]
    return next((name for name in scores if _larger_is_better(name)), None)


def _larger_is_better(name):
    try:
        return metric_of(name).larger_is_better
    except ValueError:
        # A user's own, which is called otherwise in --metrics.
        return True


def _counted(value):
    return "–" if value is None else f"{value:,}"
