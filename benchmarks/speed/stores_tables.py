"""Formats the measurements of `benchmarks.speed.stores`."""

from benchmarks.markdown import markdown


def answers_of(found):
    """Returns the cells on the recall and the speed of a store."""
    return [
        f"{found['recall']:.3f}",
        *[f"{each:.1f}" for each in found["times"]],
        f"{found['filtered'][1]:.1f}",
        f"{found['indexed'][1]:.1f}" if "indexed" in found else "–",
    ]


def costs_of(found):
    """Returns the cells on the time, memory and disk space that a store needs."""
    return [f"{found[name]:,.0f}" for name in ("load", "build", "memory", "disk")]


def tables(found):
    """Returns two Markdown tables from pairs of a case and its measurements."""
    heads = ["Recall", "Median, ms", "99th percentile, ms", "Filter, ms", "Filter with an attribute index, ms"]
    answers, costs = [], []
    for (rows, store), several in found:
        for place, each in enumerate(several):
            # The same number of candidates may reach both recalls.
            if not place or each["kind"] != several[0]["kind"]:
                answers.append([f"{rows:,}", store, each["kind"], *answers_of(each)])
        costs.append([f"{rows:,}", store, several[0]["kind"].partition("(")[0], *costs_of(several[0])])
    first = ["Rows", "Store", "Index"]
    about = [*first, "Load, s", "Build, s", "Memory, MiB", "Disk, MiB"]
    return f"{markdown([*first, *heads], answers)}\n\n{markdown(about, costs)}"
