"""Pictures of a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tfdml.reporting import (
    draw_attention,
    draw_learners,
    draw_negative_distances,
    draw_only_one_right,
    draw_pair_cosines,
)

# How many images attention is drawn over.
SHOWN = 6


def _learners(subject, folder):
    labels, count = subject.test.labels, subject.model.learner_count
    drawn = [folder / "learners.png", folder / "pair_cosines.png"]
    draw_learners(subject.result["learners"], drawn[0])
    draw_pair_cosines(subject.result["learners"]["pair_cosines"], drawn[1])
    path = folder / "only_one_right.png"
    if draw_only_one_right(subject.embeddings, labels, count, subject.thumbnail, path):
        drawn.append(path)
    distances = subject.result.get("clusters", {}).get("negative_distances")
    if distances:
        drawn.append(folder / "negative_distances.png")
        draw_negative_distances(distances, drawn[-1])
    return drawn


def _attention(subject, folder, **chosen):
    # Of different classes, from one end of the split to the other.
    images = subject.inputs(np.linspace(0, len(subject.test) - 1, SHOWN).astype(int))
    path = folder / "attention.png"
    # Half precision adds up to little.
    masks = subject.model.attention_masks(images).numpy().astype(np.float32)
    draw_attention(subject.pixels(images), masks, path, **chosen)
    return [path]


class Pictures(NamedTuple):
    """Pictures of one kind.

    Args:
        of: which runs have them.
        can_be_drawn: function of a `Subject`: whether it has them.
        draw: function of a `Subject` and a folder; gives the PNG files that it wrote there.
        captions: name of a file, without its ending, to what it shows.
    """

    of: str
    can_be_drawn: Callable
    draw: Callable
    captions: dict[str, str]


PICTURES = {
    "learners": Pictures(
        of="runs with several learners, such as --method=divide_and_conquer or --method=attention_ensemble",
        can_be_drawn=lambda subject: "learners" in subject.result,
        draw=_learners,
        captions={
            "learners": "Each learner alone, and the first ones together",
            "pair_cosines": "Cosines of positive, negative and self pairs",
            "only_one_right": "Images that only one learner gets right, with the nearest neighbor by each learner",
            "negative_distances": "Distances of negative pairs within clusters and between clusters",
        },
    ),
    "attention": Pictures(
        of="runs with attention masks, such as --method=attention_ensemble",
        can_be_drawn=lambda subject: "attention" in subject.model.pictures(),
        draw=_attention,
        captions={"attention": "Where each learner looks: the mean over channels, and single channels, of its mask"},
    ),
}
