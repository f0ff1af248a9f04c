"""The metrics of a run, with intervals, as the page of a report shows them."""

from tfdml.evaluation.metrics import RankMetric
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import class_intervals
from tfdml.reporting.page import scores_table
from tfdml.reporting.page.elements import element, joined, table
from tfdml.reporting.page.metric_tables import number


def score_tables(record, subject):
    """Returns the tables of a run's metrics, complete or still going on; None before the first evaluation.

    Args:
        record: `Record` of the run.
        subject: its `Subject`; None while it has no model.
    """
    measured = means_over_queries(subject) if subject else Scores({})
    intervals = class_intervals(measured, subject.test.labels) if subject else {}
    tables = _of_result(record.result, intervals) if record.result else _of_log(record, subject, measured, intervals)
    note = element("p", "Small numbers are 95% bootstrap intervals over classes.") if intervals else None
    return joined(*tables, note) if tables else None


def means_over_queries(subject):
    """Returns the `Scores` of a model on the test, of the metrics that are means over queries."""
    protocol = subject.experiment.splits.protocol
    metrics = [metric for metric in protocol.metrics if isinstance(metric, RankMetric)]
    return protocol.scores(subject.embeddings, subject.test, metrics) if metrics else Scores({})


def _of_result(result, intervals):
    best = f"Best (step {result['best']['step']:,})"
    names = {"features": "Features", "untrained": "Untrained", "best": best}
    names["metrics"] = f"Final (step {result['step']:,})"
    parts = {"test": result, **({"validation": result["validation"]} if "validation" in result else {})}
    tables = [
        scores_table(
            _caption(split),
            {name: scores[kind] for kind, name in names.items() if kind in scores},
            {best: intervals} if split == "test" else None,
        )
        for split, scores in parts.items()
    ]
    return [*tables, *_parts_of(result)]


def _parts_of(result):
    """Tables of what the scores of the best model are made of, see `tfdml.evaluation.evaluate`."""
    if sizes := result.get("by_class_size"):
        yield scores_table("Test split, by the number of images of a class", sizes, first="Classes")
    if nearest := result.get("nearest"):
        lines = [["nothing" if level == "none" else f"the {level}", number(share)] for level, share in nearest.items()]
        yield table(["Shares with the nearest", "Images"], lines, "Test split, mistakes by severity", class_="numbers")


def _of_log(record, subject, measured, intervals):
    evaluations = [event for event in record.events if event["event"] == "evaluation"]
    tables = []
    if subject:
        name = f"Best so far (step {record.best_step(subject.experiment.monitor):,})"
        tables = [
            scores_table(f"{_caption('test')}, measured for this report", {name: measured.values}, {name: intervals})
        ]
    if evaluations:
        first, latest = evaluations[0], evaluations[-1]
        rows = {
            f"{'Latest' if each['step'] else 'Untrained'} (step {each['step']:,})": each for each in (first, latest)
        }
        tables.append(scores_table(f"{_caption(first['split'])}, while training", rows))
    return tables


def _caption(split):
    return f"{split.capitalize()} split"
