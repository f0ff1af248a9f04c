"""Draws how much pairs weigh in each loss: `python -m docs.draw_losses` writes docs/images/losses.svg."""

import pathlib

import numpy as np
import tensorflow as tf

from docs import svg
from tfdml import registry

PICTURE = pathlib.Path(__file__).parent / "images/losses.svg"
# Title of each panel, and the loss.
LOSSES = {
    "contrastive": "contrastive(margin=1.0)",
    "contrastive, both squared": "contrastive(margin=1.0, squared_negatives=True)",
    "margin": "margin(mining='all', mean='none')",
    "threshold-consistent margin": "threshold_consistent_margin(mean='none')",
    "triplet": "triplet(mining='all', margin=0.5)",
    "triplet, Euclidean": "triplet(mining='all', margin=0.2, distance='euclidean')",
    "triplet, smooth": "triplet(mining='all', margin=0.0, form='smooth')",
    "N-pair, scale 16": "n_pair(scale=16.0)",
    "NT-Xent": "nt_xent(temperature=0.2)",
    "tuplet margin": "tuplet_margin(scale=16.0, margin=0.3)",
    "NCA": "nca(scale=4.0)",
    "lifted structure": "lifted_structure(mean='none')",
    "lifted, generalized": "lifted_structure(form='generalized', mean='anchors')",
    "binomial deviance": "binomial_deviance(negative_cost=5.0, mean='none')",
    "multi-similarity": "multi_similarity(mining='all', beta=10.0)",
    "circle": "circle(scale=16.0)",
    "ranked list": "ranked_list",
    "SmoothAP": "smooth_ap(temperature=0.1)",
    "PNP": "pnp(temperature=0.1, form='Ds')",
    "angular": "angular",
}
COLUMNS, WIDTH, HEIGHT = 4, 188, 132
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 14, 34, 160, 72
# Distances at unit length. While a pair moves, the pair of the other kind stays at its distance.
NEAREST, FARTHEST, STEPS = 0.05, 1.9, 38
POSITIVE, NEGATIVE = 0.7, 1.0
STYLE = """text { font: 12.5px sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
line { stroke: #8c959f; stroke-width: 1 } .middle { text-anchor: middle }
path { fill: none; stroke-width: 2.2 } .pull { stroke: #0969da } .push { stroke: #bc4c00; stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b1 } line { stroke: #6e7681 }
  .pull { stroke: #58a6ff } .push { stroke: #f0883e }
}"""
LABEL = (
    "Curves for twenty losses: how strongly an anchor is pulled toward a positive, and pushed away from a negative, at "
    "each distance. Some losses pull far positives most and others all alike; most push only near negatives."
)


def weights(loss, moves_positive):
    """Returns how strongly an anchor is pulled to its positive, or pushed from its negative, at each distance."""
    return [abs(weight(loss, d, moves_positive)) for d in distances()]


def distances():
    """Returns the distances of the curves."""
    return np.linspace(NEAREST, FARTHEST, STEPS + 1)


def weight(loss, distance, moves_positive):
    """Returns the derivative of the anchor's loss with respect to the distance to its positive or negative."""
    near, far = (distance, NEGATIVE) if moves_positive else (POSITIVE, distance)
    # The positive and the negative lie in directions at a right angle.
    rows = np.array([[1.0, 0, 0], [1 - near**2 / 2, along(near), 0], [1 - far**2 / 2, 0, along(far)]])
    embeddings = tf.Variable(rows)
    with tf.GradientTape() as tape:
        value = loss.call(tf.constant([0, 0, 1]), embeddings)[0]
    moved = tape.gradient(value, embeddings).numpy()[0, 1 if moves_positive else 2]
    # A step along the sphere changes the distance by this share of its length.
    return moved / np.sqrt(1 - distance**2 / 4)


def along(distance):
    """Returns the coordinate of a point at a distance on the unit sphere, in the direction of the point."""
    return distance * np.sqrt(1 - distance**2 / 4)


def panel(title, spec, number):
    """Returns the panel of a loss: both curves, each in proportion to its maximum."""
    x, y = WIDTH * (number % COLUMNS) + LEFT, HEIGHT * (number // COLUMNS) + TOP
    base, loss = y + PANEL_HEIGHT, registry.create("loss", spec)
    yield f'<text x="{x}" y="{y - 8}">{title}</text>'
    yield f'<line x1="{x}" y1="{base}" x2="{x + PANEL_WIDTH}" y2="{base}"/>'
    for value in (0, 1, 2):
        yield f'<text class="small middle" x="{x + PANEL_WIDTH * value / 2:g}" y="{base + 14}">{value}</text>'
    for kind, moves_positive in (("pull", True), ("push", False)):
        found = np.array(weights(loss, moves_positive))
        heights = PANEL_HEIGHT * found / max(found.max(), 1e-12)
        places = [
            f"{x + PANEL_WIDTH * d / 2:.0f} {base - h:.0f}"
            for d, h in zip(distances(), np.round(heights, 6), strict=True)
        ]
        yield f'<path class="{kind}" d="M {" L ".join(places)}"/>'


def drawing():
    """Returns the picture as SVG."""
    rows = -(-len(LOSSES) // COLUMNS)
    panels = [line for number, (title, spec) in enumerate(LOSSES.items()) for line in panel(title, spec, number)]
    return svg.document(COLUMNS * WIDTH, rows * HEIGHT, LABEL, STYLE, panels)


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")
