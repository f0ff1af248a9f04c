"""Tables of what `benchmarks.speed.stores` measured."""

from benchmarks.markdown import markdown


def answers_of(found):
    """Cells of how well and how fast a store answers."""
    return [
        f"{found['recall']:.3f}",
        *[f"{each:.1f}" for each in found["times"]],
        f"{found['filtered'][1]:.1f}",
        f"{found['indexed'][1]:.1f}" if "indexed" in found else "–",
    ]


def costs_of(found):
    """Cells of what a store takes."""
    return [f"{found[name]:,.0f}" for name in ("load", "build", "memory", "disk")]


def tables(found):
    """Returns the two tables in Markdown, of pairs of what a case is and what was measured of it."""
    heads = ["recall", "ms", "p99", "ms of 1 %", "with its index"]
    answers, costs = [], []
    for (rows, store), several in found:
        for place, each in enumerate(several):
            # One number of candidates may be enough for both recalls.
            if not place or each["kind"] != several[0]["kind"]:
                answers.append([f"{rows:,}", store, each["kind"], *answers_of(each)])
        costs.append([f"{rows:,}", store, several[0]["kind"].partition("(")[0], *costs_of(several[0])])
    first = ["rows", "store", "index"]
    about = [*first, "load, s", "build, s", "memory, MiB", "disk, MiB"]
    return f"{markdown([*first, *heads], answers)}\n\n{markdown(about, costs)}"
