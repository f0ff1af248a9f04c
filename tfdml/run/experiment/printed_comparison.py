"""Prints a comparison of runs for people."""

import string


def print_comparison(found):
    """Prints what `compare_runs` returns."""
    names = [letter for letter in string.ascii_lowercase if letter in found]
    print("".join(f"{name.upper()}: {', '.join(found[name])}\n" for name in names))
    if len(names) == 2:
        _print_two(found)
    else:
        _print_several(found, names)


def _print_two(found):
    titles = ["", "A", "B", "B - A", "95% interval", "better"]
    _print_rows([titles, *(_row_of_two(name, each) for name, each in found["metrics"].items())])
    alone = found["right_alone"]
    print(f"\nOf {found['queries']} queries, only A gets {alone['a']} right at rank 1, and only B {alone['b']}.\n")


def _row_of_two(name, each):
    means = [f"{each[key]:.3f}{_deviation(each, f'{key}_std')}" for key in "ab"]
    return [_titled(name), *means, f"{each['difference']:+.3f}", _interval(each), (each["better"] or "-").upper()]


def _print_several(found, names):
    metrics = found["metrics"].items()
    of_each = [[_titled(metric), *(_mean(each[name]) for name in names)] for metric, each in metrics]
    _print_rows([["", *map(str.upper, names)], *of_each])
    print("\nAll pairs, with intervals that hold for those of a metric together, and p-values corrected for them:\n")
    pairs = [_row_of_pair(metric, pair) for metric, each in metrics for pair in each["pairs"]]
    _print_rows([["", "pair", "difference", "95% interval", "p", "better"], *pairs])
    alone = ", ".join(f"{name.upper()} {count}" for name, count in found["right_alone"].items())
    print(f"\nOf {found['queries']} queries at rank 1, each alone gets right: {alone}.\n")


def _row_of_pair(metric, pair):
    between = f"{pair['second']} - {pair['first']}".upper()
    better = (pair["better"] or "-").upper()
    return [_titled(metric), between, f"{pair['difference']:+.3f}", _interval(pair), f"{pair['p']:.2g}", better]


def _mean(each):
    low, high = each["interval"]
    return f"{each['mean']:.3f}{_deviation(each, 'std')} ({low:.3f} to {high:.3f})"


def _deviation(each, key):
    return f" ± {each[key]:.3f}" if key in each else ""


def _interval(each):
    return "{:+.3f} to {:+.3f}".format(*each["interval"])


def _titled(metric):
    return metric.replace("recall_at_", "Recall@")


def _print_rows(rows):
    """Prints rows of text, the first cell at the left and the others at the right of their columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        print("  ".join([f"{name:{widths[0]}}", *map(str.rjust, cells, widths[1:])]).rstrip())
