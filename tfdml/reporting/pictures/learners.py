"""Charts of the diversity of learners."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.chart import legend_above, new_chart, save_chart
from tfdml.reporting.picture import Picture
from tfdml.reporting.pictures.only_one_right import draw_only_one_right


@register("picture", "learners")
class Learners(Picture):
    """Each learner alone, and the first ones together."""

    captions = {
        "pair_cosines": "Cosines of positive, negative and self pairs",
        "only_one_right": "Images that only one learner gets right, with the nearest neighbor by each learner",
        "negative_distances": "Distances of negative pairs within clusters and between clusters",
    }
    place = 80
    of = "runs with several learners, such as --method=divide_and_conquer or --method=attention_ensemble"

    def can_be_drawn(self, subject):
        return subject.learner_count > 1

    def draw(self, subject, folder):
        labels, count = subject.test.labels, subject.learner_count
        names = ("learners", "pair_cosines", "only_one_right", "negative_distances")
        learners, cosines, one_right, distances = (folder / f"{name}.png" for name in names)
        draw_learners(subject.learners, learners)
        draw_pair_cosines(subject.learners["pair_cosines"], cosines)
        drawn = [learners, cosines]
        if draw_only_one_right(subject.embeddings, labels, count, subject.thumbnail, one_right):
            drawn.append(one_right)
        if subject.negative_distances:
            draw_negative_distances(subject.negative_distances, distances)
            drawn.append(distances)
        return drawn


def draw_learners(learners: Mapping[str, Any], path: FilePath) -> None:
    """Draws the first metric of each learner alone, and of the first ones together (Figure 10 of Divide and Conquer).

    Args:
        learners: the result of `tfdml.evaluation.diversity`.
        path: the PNG to write.
    """
    metric = next(name for name in learners["first"][0] if name != "queries")
    alone, first = ([metrics[metric] for metrics in learners[kind]] for kind in ("alone", "first"))
    numbers = np.arange(len(alone))
    across = f"learner; correlation {learners['correlation']:.3f}"
    figure, axes = new_chart(across, metric.replace("recall_at_", "Recall@"))
    axes.bar(numbers, alone, color="#9ecae1", label="each learner alone")
    axes.plot(numbers, first, "o-", color="#d95f02", label="with all before it")
    axes.set_xticks(numbers)
    legend_above(axes)
    save_chart(figure, path)


def draw_negative_distances(distances: Mapping[str, Any], path: FilePath) -> None:
    """Draws distances of negative pairs, within clusters and between clusters (Figure 8 of Divide and Conquer).

    Args:
        distances: the result of `tfdml.evaluation.diversity.negative_distances`.
        path: the PNG to write.
    """
    names = {"within": "within clusters", "between": "between clusters"}
    _draw_shares(distances, names, "distance of negative pairs", path)


def draw_pair_cosines(cosines: Mapping[str, Any], path: FilePath) -> None:
    """Draws cosines of positive, negative and self pairs (Figure 5 of Attention-based Ensemble).

    Args:
        cosines: the result of `tfdml.evaluation.diversity.pair_cosines`.
        path: the PNG to write.
    """
    names = {"negative": "negative", "positive": "positive", "self": "self: an image, two learners"}
    _draw_shares(cosines, names, "cosine", path)


def _draw_shares(shares, names, across, path):
    figure, axes = new_chart(across, "share")
    for (kind, name), color in zip(names.items(), ("#d95f02", "#3182bd", "#2ca25f"), strict=False):
        mean = shares[f"mean_{kind}"]
        if mean is not None:
            options = {"fill": True, "alpha": 0.5, "color": color}
            axes.stairs(shares[kind], shares["edges"], label=f"{name}, mean {mean:.2f}", **options)
    legend_above(axes)
    save_chart(figure, path)
