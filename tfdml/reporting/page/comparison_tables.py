"""Tables that compare runs."""

from tfdml.reporting.page.about import WORDS
from tfdml.reporting.page.elements import element, joined, pairs, table
from tfdml.reporting.page.metric_tables import titled

WINNERS = {"a": "worse", "b": "better", None: ""}


def compared_runs(main, flags):
    """Returns what the runs have in common, and the flags in which they differ.

    Args:
        main: name of a run to the flags that say most, each name to value.
        flags: name of a run to all its flags, each name to value.
    """
    first = next(iter(main.values()))
    common = {WORDS.get(key, key.capitalize()): value for key, value in first.items() if _same(main, key)}
    names = [name for name in next(iter(flags.values())) if not _same(flags, name)]
    rows = [[f"--{name}", *(element("code", each[name]) for each in flags.values())] for name in names]
    different = table(["Flag", *flags], rows, "Flags that differ", class_="flags") if rows else None
    return joined(pairs(common), different)


def differences_table(first, found):
    """Returns the paired differences of runs from the first one.

    Args:
        first: name of the first run.
        found: name of each other run to what `tfdml.evaluation.comparison.compare` says of the two.
    """
    metrics = list(next(iter(found.values())))
    rows = [[name, *(_difference(of_run[metric]) for metric in metrics)] for name, of_run in found.items()]
    caption = f"Difference from {first}, query by query"
    explanation = (
        "Small numbers are 95% bootstrap intervals of the mean difference over queries. A run is better or worse where "
        "the interval does not contain 0."
    )
    return joined(table(["Run", *map(titled, metrics)], rows, caption, class_="numbers"), element("p", explanation))


def right_table(right, queries):
    """Returns how many queries each run gets right, and how many of them no other run does.

    Args:
        right: name of a run to `(right, right alone)`.
        queries: number of queries.
    """
    rows = [[name, f"{each:,}", f"{alone:,}"] for name, (each, alone) in right.items()]
    caption = f"Queries whose nearest image is right, of {queries:,}"
    return table(["Run", "Right", "Right alone"], rows, caption, class_="numbers")


def _difference(each):
    low, high = each["interval"]
    winner = WINNERS[each["better"]]
    value = element("strong" if winner else "span", _signed(each["difference"]), f" {winner}" if winner else None)
    return joined(value, element("small", f"{_signed(low)} to {_signed(high)}"))


def _signed(value):
    return f"{value:+.3f}".replace("-", "−")


def _same(of_runs, key):
    return len({str(each[key]) for each in of_runs.values()}) == 1
