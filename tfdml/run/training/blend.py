"""Weights between those that training began with and those that it ended with."""

import dataclasses
from typing import Any

import numpy as np
from keras import backend

from tfdml.evaluation.statistics import resampled_means

# The part of the final weights in a mean of both.
SHARES = (0.25, 0.5, 0.75)


@dataclasses.dataclass(frozen=True)
class Blend:
    """The mean of the first and the final weights of a run that is best on the classes that select.

    What a pretrained network knows and training has made it forget comes back in part, as in Wortsman et al., "Robust
    fine-tuning of zero-shot models", CVPR 2022.

    Args:
        share: the part of the final weights.
        metrics: what the model reaches with it.
    """

    share: float
    metrics: dict[str, Any]

    @classmethod
    def best(cls, experiment, model, first, monitor):
        """Measures blends on the classes that select; the model keeps its weights.

        Of those that are hardly worse than the best one, by one standard error over classes, the one with the largest
        part of the final weights is taken: few classes to select by would choose at random among them.

        Args:
            experiment: `Experiment`.
            model: the final model.
            first: the weights that training began with.
            monitor: name of the metric.
        """
        split, metrics = experiment.splits.evaluation, experiment.splits.protocol.while_training
        final, found = model.get_weights(), []
        for share in SHARES:
            model.set_weights(between(first, final, share))
            scores = experiment.scores(experiment.embed(model, split), split, metrics)
            found.append((scores, cls(share, scores.summary())))
        model.set_weights(final)
        best = max(found, key=lambda each: each[1].metrics[monitor])[0]
        return [blend for scores, blend in found if not _is_worse(scores, best, monitor, split.labels)][-1]


def between(first, final, share):
    """Returns weights of which a part is the final ones; numbers that are no floats, such as seeds, are final."""
    return [
        ((1 - share) * before + share * after).astype(after.dtype)
        if backend.is_float_dtype(backend.standardize_dtype(after.dtype))
        else after
        for before, after in zip(first, final, strict=True)
    ]


def _is_worse(scores, best, monitor, labels):
    """Whether scores are lower than the best ones by more than a standard error."""
    behind = best.values[monitor] - scores.values[monitor]
    if monitor not in best.per_query or behind <= 0:
        return behind > 0
    differences = best.per_query[monitor] - scores.per_query[monitor]
    classes = labels[best.queries]
    return len(np.unique(classes)) < 2 or behind > resampled_means(differences[:, None], classes).std()


def set_aside(run):
    """Keeps the best model of a step beside the one that takes its place: a run that goes on compares with it."""
    for path, aside in _kept(run):
        if path.is_file():
            path.rename(aside)


def put_back(run):
    """Gives the best model of a step its place again."""
    for path, aside in _kept(run):
        if aside.is_file():
            aside.rename(path)


def _kept(run):
    """The files of the best model, and where they are kept aside."""
    return [(run.model, run.path / "best_step.keras"), (run.adapter, run.path / "best_step_adapter.weights.h5")]
