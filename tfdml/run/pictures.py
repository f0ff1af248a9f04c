"""Pictures of a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipelines.images.pictures import thumbnail
from tfdml.preprocessing import preprocessing_of
from tfdml.reporting import (
    draw_attention,
    draw_learners,
    draw_negative_distances,
    draw_only_one_right,
    draw_pair_cosines,
)

# How many images attention is drawn over.
SHOWN = 6


def _learners(experiment, model, result, folder):
    test, count = experiment.splits.test, model.learner_count
    drawn = [folder / "learners.png", folder / "pair_cosines.png"]
    draw_learners(result["learners"], drawn[0])
    draw_pair_cosines(result["learners"]["pair_cosines"], drawn[1])
    embeddings, path = experiment.embed(model, test), folder / "only_one_right.png"
    if draw_only_one_right(embeddings, test.labels, count, lambda row, side: thumbnail(test, row, side), path):
        drawn.append(path)
    distances = result.get("clusters", {}).get("negative_distances")
    if distances:
        drawn.append(folder / "negative_distances.png")
        draw_negative_distances(distances, drawn[-1])
    return drawn


def _attention(experiment, model, result, folder, **chosen):
    # Of different classes, from one end of the split to the other.
    rows = np.linspace(0, len(experiment.splits.test) - 1, SHOWN).astype(int)
    split = experiment.splits.test.where(rows)
    images = next(iter(experiment.images.evaluation(split, model)))[: len(split)]
    path = folder / "attention.png"
    # Half precision adds up to little.
    masks = model.attention_masks(images).numpy().astype(np.float32)
    draw_attention(pixels_of(images.numpy(), **preprocessing_of(model)), masks, path, **chosen)
    return [path]


def pixels_of(images, mean, std, channels):
    """Converts the input of the network back to a picture."""
    pixels = np.clip(np.round(images * std + mean), 0, 255).astype(np.uint8)
    return pixels[..., ::-1] if channels == "bgr" else pixels


class Pictures(NamedTuple):
    """Pictures of one kind.

    Args:
        of: which runs have them.
        can_be_drawn: function of the best model and the result: whether this run has them.
        draw: function of the experiment, the final model, the result and a folder; gives the files it wrote there.
    """

    of: str
    can_be_drawn: Callable
    draw: Callable


PICTURES = {
    "learners": Pictures(
        of="runs with several learners, such as --method=divide_and_conquer or --method=attention_ensemble",
        can_be_drawn=lambda model, result: "learners" in result,
        draw=_learners,
    ),
    "attention": Pictures(
        of="runs with attention masks, such as --method=attention_ensemble",
        can_be_drawn=lambda model, result: "attention" in model.pictures(),
        draw=_attention,
    ),
}
