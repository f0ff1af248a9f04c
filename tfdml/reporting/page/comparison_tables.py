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
        "Small numbers are 95% bootstrap intervals over classes of the mean difference. A run is better or worse where "
        "the interval does not contain 0."
    )
    return joined(table(["Run", *map(titled, metrics)], rows, caption, class_="numbers"), element("p", explanation))


def pairs_table(found):
    """Returns the paired differences of all runs from each other.

    Args:
        found: what `tfdml.evaluation.comparison.compare_all` says of the runs, whose names begin with a letter.
    """
    of_metrics = [each["pairs"] for each in found.values()]
    rows = [
        [f"{pairs[0]['second'][0]} − {pairs[0]['first'][0]}", *map(_pair, pairs)]
        for pairs in zip(*of_metrics, strict=True)
    ]
    explanation = (
        "Small numbers are 95% bootstrap intervals over classes of the mean difference, and p-values. They are "
        "corrected for the number of pairs: the intervals of all pairs of a metric hold together. The first of a pair "
        "is better or worse where the interval does not contain 0."
    )
    made = table(["Runs", *map(titled, found)], rows, "Differences of all pairs, query by query", class_="numbers")
    return joined(made, element("p", explanation))


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
    return _signed_difference(each, WINNERS[each["better"]])


def _pair(each):
    winner = {each["second"]: "better", each["first"]: "worse"}.get(each["better"], "")
    return _signed_difference(each, winner, f", p = {each['p']:.2g}")


def _signed_difference(each, winner, more=""):
    low, high = each["interval"]
    value = element("strong" if winner else "span", _signed(each["difference"]), f" {winner}" if winner else None)
    return joined(value, element("small", f"{_signed(low)} to {_signed(high)}{more}"))


def _signed(value):
    return f"{value:+.3f}".replace("-", "−")


def _same(of_runs, key):
    return len({str(each[key]) for each in of_runs.values()}) == 1
