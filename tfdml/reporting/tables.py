"""The tables and the gallery of a report."""

import numpy as np
from markupsafe import Markup
from PIL import Image

from tfdml.console import scores as text
from tfdml.console.scores import titled
from tfdml.evaluation.metrics import RankMetric
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import class_intervals
from tfdml.reporting.page import SIDES, WORDS, code, html, joined, jpeg, jpeg_within, paragraph


def scores_table(caption, rows, intervals=None, deviations=None, first="Model"):
    """Returns a table of metrics by name of a row, with one column for each metric that a row has.

    Intervals `[low, high]` and standard deviations are by row and metric. `first` is the heading of the row names.
    """
    intervals, deviations = intervals or {}, deviations or {}
    columns = list(dict.fromkeys(name for metrics in rows.values() for name in metrics if is_score(name, metrics)))

    def cell(row, column):
        shown, deviation = score(column, rows[row].get(column)), deviations.get(row, {}).get(column)
        shown = shown if deviation is None else f"{shown} ± {text.bare(column, deviation)}"
        ends = intervals.get(row, {}).get(column)
        return shown if ends is None else Markup("{}<small>{}</small>").format(shown, text.interval(column, ends))

    lines = [[row, *(cell(row, column) for column in columns)] for row in rows]
    return html.table([first, *map(titled, columns)], lines, caption, "numbers")


def is_score(name, metrics):
    """Returns whether an entry of a result is a metric, and not for example a step or a count."""
    value = metrics[name]
    known = value is None or (isinstance(value, float | int) and not isinstance(value, bool))
    return known and name not in ("queries", "step", "seconds", "epoch")


def score(name, value):
    """Returns the value of a metric, in percent if it is a share; a count as it is, and a dash for None."""
    return number(value) if value is None or isinstance(value, int) else text.score(name, value)


def number(value):
    """Returns a value with three digits, a count as it is; a dash for a missing value."""
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def compared_runs(main, flags):
    """Returns what runs have in common, and a table of the flags in which they differ.

    `main` maps the name of a run to its most important flags, and `flags` to all its flags.
    """

    def is_same(runs, name):
        return len({str(of_run[name]) for of_run in runs.values()}) == 1

    first = next(iter(main.values()))
    common = {WORDS.get(name, name.capitalize()): value for name, value in first.items() if is_same(main, name)}
    names = [name for name in next(iter(flags.values())) if not is_same(flags, name)]
    rows = [[f"--{name}", *(code(of_run[name]) for of_run in flags.values())] for name in names]
    different = html.table(["Flag", *flags], rows, "Flags that differ", "flags") if rows else None
    return joined(html.pairs(common), different)


def differences_table(first, second, comparison):
    """Returns a table of the paired differences between the second and the first run, from `compare`."""
    words = {"a": "worse", "b": "better", None: ""}
    cells = [_difference(metric, pair, words[pair["better"]]) for metric, pair in comparison.items()]
    caption = f"Difference from {first}, query by query"
    explanation = (
        "Small numbers are 95% confidence intervals of the mean difference, from a bootstrap over classes. A run is "
        "called better or worse only if its interval does not contain 0."
    )
    made = html.table(["Run", *map(titled, comparison)], [[second, *cells]], caption, "numbers")
    return joined(made, paragraph(explanation))


def pairs_table(comparison):
    """Returns a table of the differences between all runs, with names that start with a letter, from `compare_all`."""

    def cell(metric, pair):
        word = {pair["second"]: "better", pair["first"]: "worse"}.get(pair["better"], "")
        return _difference(metric, pair, word, f", p = {pair['p']:.2g}")

    rows = [
        [f"{pairs[0]['second'][0]} − {pairs[0]['first'][0]}", *map(cell, comparison, pairs)]
        for pairs in zip(*(of_metric["pairs"] for of_metric in comparison.values()), strict=True)
    ]
    explanation = (
        "Small numbers are 95% confidence intervals of the mean difference, from a bootstrap over classes, and "
        "p-values. Both are corrected for the number of pairs: all intervals of a metric hold together with 95% "
        "confidence. The first run of a pair is called better or worse only if the interval does not contain 0."
    )
    made = html.table(["Runs", *map(titled, comparison)], rows, "Differences of all pairs, query by query", "numbers")
    return joined(made, paragraph(explanation))


def right_table(right, queries):
    """Returns how many queries each run gets right, and how many only this run, from both numbers by name."""
    rows = [[name, f"{each:,}", f"{alone:,}"] for name, (each, alone) in right.items()]
    caption = f"Number of queries with a nearest image of their class, of {queries:,} queries"
    return html.table(["Run", "Right", "Right in this run only"], rows, caption, "numbers")


def _difference(metric, pair, word, more=""):
    difference = text.difference(metric, pair["difference"]).replace("-", "−")
    ends = text.interval(metric, pair["interval"], sign="+").replace("-", "−")
    form = "<strong>{} {}</strong>" if word else "<span>{}</span>"
    return Markup(form + "<small>{}{}</small>").format(*filter(None, [difference, word]), ends, more)


def learners_tables(learners, names=None, cost=None):
    """Returns how the learners of a run differ, and their cost, or None for a run with one learner.

    The arguments are the output of `diversity` and `cost` of `tfdml.evaluation`, or None. `names` are the names of the
    learners; by default, they are numbered.
    """
    if learners is None:
        return None
    alone, first = learners["alone"], learners["first"]
    columns = [name for name in alone[0] if is_score(name, alone[0])]
    monitor = columns[0]
    head = ["Learner", *map(titled, columns), f"{titled(monitor)} with all previous learners", "Right alone"]
    rows = [
        [
            name,
            *(score(column, alone[k][column]) for column in columns),
            score(monitor, first[k][monitor]),
            learners["only_one"][k],
        ]
        for k, name in enumerate(names or range(len(alone)))
    ]
    caption = (
        f"The mean absolute correlation between dimensions of different learners is {learners['correlation']:.3f}. "
        "“Right alone” is the number of images that only this learner gets right."
    )
    made = joined(html.table(head, rows, "Each learner alone", "numbers"), paragraph(caption))
    if not cost:
        return made
    adds = "" if cost["multiply_adds"] is None else f" and needs {cost['multiply_adds']:,} multiply-adds per image"
    return made + paragraph(f"The model has {cost['parameters']:,} parameters{adds}.")


# Bytes for all images of a gallery, and the longest side of an image in pixels.
IMAGES, LARGEST = 9_000_000, 512
# Largest number of queries of each kind, and a side in pixels that shows enough detail.
MOST, LARGE = 40, 320
# Smallest number of queries, with smaller images if necessary. There are fewer only if the smallest images need too
# many bytes.
FEWEST = 8


def queries_within(images, shown):
    """Returns how many queries of each kind to show, so that their images are large and the page is not.

    `images` are a sample. `shown` is the number of images that one query of each kind shows, over all kinds.
    """
    pictures = [Image.fromarray(pixels) for pixels in images]
    large, small = (
        int(IMAGES / shown / np.quantile([len(jpeg(picture, side)) for picture in pictures], 0.9))
        for side in (LARGE, SIDES[-1])
    )
    return max(min(max(large, FEWEST), small, MOST), 1)


def _closeness(query, neighbors, distance):
    """Returns the cosine similarities `[k]` of a query's neighbors, or their Euclidean distances."""
    query, neighbors = np.asarray(query, np.float64), np.asarray(neighbors, np.float64)
    if distance == "euclidean":
        return np.linalg.norm(neighbors - query, axis=1)
    lengths = np.linalg.norm(neighbors, axis=1) * np.linalg.norm(query)
    return neighbors @ query / np.where(lengths > 0, lengths, 1.0)


def gallery_data(chosen, found, closeness, image, about, places=None, notes=None):
    """Returns the gallery as plain data.

    `chosen` maps the kind of queries, such as `Worst`, to their rows, and `found` the name of a model to the output of
    `neighbors_of`. `closeness` names the numbers, such as `cosine similarity`. `image` maps a row to its uint8 image
    `[H, W, 3]`, and `about` to the names of the image and of its class. `places` are the `PlaceShares` of the first
    model, or None. `notes` are remarks about queries, by row, that are shown instead of their kinds.
    """
    queries = list(dict.fromkeys(int(row) for rows in chosen.values() for row in rows))
    neighbors = (row for of_model in found.values() for query in queries for row, *_ in of_model[query])
    shown = sorted({*queries, *neighbors})

    def data_of(row):
        name, of_class = about(row)
        pixels = image(row)
        source = jpeg_within(Image.fromarray(pixels), IMAGES // len(shown), LARGEST)
        seen = {"seen": [round(edge, 4) for edge in places.seen(*pixels.shape[:2])]} if places else {}
        return {"src": source, "name": name, "class": of_class, **seen}

    return {
        "kinds": list(chosen),
        "models": list(found),
        "closeness": closeness,
        "images": {row: data_of(row) for row in shown},
        "queries": [
            {
                "row": query,
                "kinds": [kind for kind, rows in chosen.items() if query in rows],
                "found": [[list(neighbor) for neighbor in of_model[query]] for of_model in found.values()],
                **({"places": places.of_query(query)} if places else {}),
                **({"note": notes[query]} if notes else {}),
            }
            for query in queries
        ],
        **({"grid": places.grid()} if places else {}),
    }


def neighbors_of(retrieved, rows, embeddings, distance):
    """Returns the row of each query to a list of `(row, closeness, right)` of its neighbors, nearest first.

    The rows must be queries of `retrieved`, which was computed from these embeddings.
    """
    found = {}
    for query, place in zip(rows, np.searchsorted(retrieved.queries, rows), strict=True):
        near = retrieved.rows[place] >= 0
        neighbors, right = retrieved.rows[place][near], retrieved.right[place][near]
        close = _closeness(embeddings[query], embeddings[neighbors], distance)
        found[int(query)] = list(zip(neighbors.tolist(), close.round(4).tolist(), right.tolist(), strict=True))
    return found


def gallery(data):
    """Returns the elements that the script fills, and the form that selects queries."""
    classes = sorted({data["images"][query["row"]]["class"] for query in data["queries"]})
    return html.gallery(data["kinds"], classes, data["models"], "grid" in data)


def score_tables(record, subject):
    """Returns the tables of a run's metrics, or None before the first evaluation. The run may be incomplete."""
    measured = means_over_queries(subject) if subject else Scores({})
    intervals = class_intervals(measured, subject.test.labels) if subject else {}
    if record.result:
        tables = _of_result(record.result, intervals)
    else:
        tables = []
        if subject:
            name = f"Best so far (step {record.best_step(subject.experiment.monitor):,})"
            caption = "Test split, measured for this report"
            tables.append(scores_table(caption, {name: measured.values}, {name: intervals}))
        if evaluations := [event for event in record.events if event["event"] == "evaluation"]:
            first, latest = evaluations[0], evaluations[-1]
            rows = {
                f"{'Latest' if event['step'] else 'Before training'} (step {event['step']:,})": event
                for event in (first, latest)
            }
            tables.append(scores_table(f"{first['split'].capitalize()} split, while training", rows))
    note = paragraph("Small numbers are 95% confidence intervals (bootstrap over classes).") if intervals else None
    return joined(*tables, note) if tables else None


def means_over_queries(subject):
    """Returns the `Scores` of a model on the test split for the metrics that are means over queries."""
    protocol = subject.experiment.splits.protocol
    metrics = [metric for metric in protocol.metrics if isinstance(metric, RankMetric)]
    return protocol.scores(subject.embeddings, subject.test, metrics) if metrics else Scores({})


def _of_result(result, intervals):
    best, final = f"Best (step {result['best']['step']:,})", f"Final (step {result['step']:,})"
    before = {kind: name.capitalize() for kind, name in text.BEFORE_TRAINING.items()}
    names = {**before, "best": best, "metrics": final}
    tables = []
    for caption, scores in (("Test split", result), ("Validation split", result.get("validation"))):
        if scores:
            rows = {name: scores[kind] for kind, name in names.items() if kind in scores}
            tables.append(scores_table(caption, rows, {best: intervals} if scores is result else None))
    # The breakdown of the best model's scores, see `tfdml.evaluation.evaluate.breakdown`.
    if sizes := result.get("by_class_size"):
        caption = "Test split, by class size: “head” is the third of the classes with the most images"
        tables.append(scores_table(caption, sizes, first="Classes"))
    if nearest := result.get("nearest"):
        lines = [["nothing" if level == "none" else f"the {level}", f"{share:.1%}"] for level, share in nearest.items()]
        caption = "Test split, what images share with their nearest image"
        tables.append(html.table(["Finest shared level", "Images"], lines, caption, "numbers"))
    return tables
