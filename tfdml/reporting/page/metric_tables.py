"""Tables of metrics."""

from tfdml.reporting.page.elements import element, joined, table

# Names of metrics as papers write them, and what they begin with.
NAMES = {"r_precision": "R-precision", "map_at_r": "MAP@R", "map": "mAP", "mrr": "MRR"}
BEGINNINGS = {"recall_at_": "Recall@", "precision_at_": "Precision@", "cmc_at_": "CMC@"}
CAPITALS = ("nmi", "ami", "ari", "f1")


def scores_table(caption, rows, intervals=None, deviations=None, first="Model"):
    """Returns a table of metrics.

    Args:
        caption: what was measured.
        rows: name to metrics by name; those of all rows are columns.
        intervals: row name to intervals `[low, high]` by metric name, or None.
        deviations: row name to standard deviations by metric name, or None.
        first: what the names of rows are.
    """
    intervals, deviations = intervals or {}, deviations or {}
    columns = list(dict.fromkeys(name for metrics in rows.values() for name in metrics if is_score(name, metrics)))
    lines = []
    for name, metrics in rows.items():
        parts = (metrics, intervals.get(name, {}), deviations.get(name, {}))
        lines.append([name, *(_cell(*(part.get(column) for part in parts)) for column in columns)])
    return table([first, *map(titled, columns)], lines, caption, class_="numbers")


def is_score(name, metrics):
    """Whether an entry of a result is a metric: a number that no step or count is."""
    value = metrics[name]
    known = value is None or (isinstance(value, float | int) and not isinstance(value, bool))
    return known and name not in ("queries", "step", "seconds", "epoch")


def titled(name):
    """Returns the name of a metric as it is written in text."""
    if name in NAMES or name in CAPITALS:
        return NAMES.get(name, name.upper())
    for beginning, written in BEGINNINGS.items():
        name = name.replace(beginning, written)
    return name.replace("_", " ")


def number(value):
    """Returns a value with three digits, a count as it is; a dash where there is none."""
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _cell(value, interval, deviation):
    shown = number(value) if deviation is None else f"{number(value)} ± {deviation:.3f}"
    if interval is None:
        return shown
    low, high = interval
    return joined(shown, element("small", f"{low:.3f} to {high:.3f}"))
