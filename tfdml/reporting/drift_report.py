"""Tests whether queries differ from a reference, and describes the result in a picture and in sentences."""

import numpy as np

from tfdml.evaluation.drift import Drift
from tfdml.reporting.sheets import COLORS, in_percent, legend_above, new_chart, save_chart

BARS = 40


def judged(embeddings, nearest, names, *, metric="cosine", threshold=None, seed=0, picture=None):
    """Returns the `Drift` between queries and a reference. If `picture` is the path of a PNG file, it is drawn.

    `embeddings`, arrays `[n, d]`, `nearest`, similarities `[n]` to an index, and `names` are pairs: first the queries,
    then the reference.
    """
    drift = Drift.between(*embeddings, nearest, threshold, seed=seed)
    if picture:
        draw_nearest(dict(zip(names, nearest, strict=True)), picture, metric=metric, threshold=threshold)
    return drift


def draw_nearest(nearest, path, *, metric="cosine", threshold=None):
    """Draws histograms of the nearest similarities, from names to arrays, as a PNG file, and an SVG file next to it."""
    sign, across = (1, "cosine similarity") if metric == "cosine" else (-1, "Euclidean distance")
    figure, axes = new_chart(f"{across} of the nearest image in the index", "share of images")
    edges = np.histogram_bin_edges(sign * np.concatenate(list(nearest.values())), BARS)
    for (name, values), color in zip(nearest.items(), COLORS, strict=False):
        shares = np.histogram(sign * values, edges)[0] / len(values)
        axes.stairs(
            shares, edges, fill=True, alpha=0.5, color=color, label=f"{name}, mean {np.mean(sign * values):.2f}"
        )
    if threshold is not None:
        axes.axvline(sign * threshold, color="black", label="threshold")
    in_percent(axes.yaxis)
    legend_above(axes, columns=2)
    save_chart(figure, path)


def sentences(drift):
    """Returns what a `Drift` means, as a list of sentences."""
    counts = f"{drift.queries:,} queries and {drift.reference:,} reference images"
    chance = f"p = {drift.p_value:.3f}"
    verdict = (
        f"The queries differ from the reference by more than chance ({chance}, {counts})."
        if drift.differs
        else f"No difference between the queries and the reference was found ({chance}, {counts})."
    )
    query, reference, interval = drift.similarity
    found = [
        verdict,
        f"Energy distance of the embeddings: {drift.distance:.3f}, from 0 (equal) to 1.",
        f"Mean similarity of the nearest image: {query:.3f}, compared with {reference:.3f} for the reference: "
        f"{query - reference:+.3f} (95% CI {interval[0]:+.3f} to {interval[1]:+.3f}).",
    ]
    if drift.unknown is not None:
        query, reference, interval = drift.unknown
        points = [100 * each for each in (query - reference, *interval)]
        found.append(
            f"Unknown, below the threshold: {query:.1%}, compared with {reference:.1%} for the reference: "
            f"{points[0]:+.1f} points (95% CI {points[1]:+.1f} to {points[2]:+.1f})."
        )
    return found
