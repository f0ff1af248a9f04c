"""The gain of training over the features of the pretrained network."""

import math

import numpy as np

from tfdml import registry
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.registry.arguments import sides_of

# The learning rate, and the side of images, that are advised.
RATE, SIDE = 0.0001, 224
# What to try where training has won nothing, and whether the values of flags have tried it.
ADVICE = {
    "a mean of the first and the final weights, --blend": lambda values: values["blend"],
    "embeddings of several depths, --method=multilevel": lambda values: "multilevel" in values["method"],
    f'a lower learning rate, --optimizer="adam(learning_rate={RATE})"': lambda values: _rate(values) <= RATE,
    "a backbone that learns more slowly, --lr_multipliers=backbone=0.1": lambda values: (
        "backbone" in str(values["lr_multipliers"])
    ),
    f"larger images, --image_size={SIDE}": lambda values: _side(values) >= SIDE,
}
ADVISED = 3


def gain_of(features, best, labels, metric):
    """Returns how much higher a metric of the best model is than that of the features.

    Args:
        features, best: `Scores` of the same split.
        labels: `[N]` class numbers of the split.
        metric: name of the metric; where it is no mean over queries, the first that is one takes its place.

    Returns:
        `{"metric": name, "features": value, "best": value, "difference": best - features, "interval": [low, high]}`,
        the interval over classes; None where no metric is a mean over queries, or there is one class.
    """
    names = [metric] if metric in best.per_query else list(best.per_query)
    if not names or len(np.unique(labels[best.queries])) < 2:
        return None
    name = names[0]
    before, after = features.per_query[name], best.per_query[name]
    interval = bootstrap_intervals({name: after - before}, labels[best.queries])[name]
    about = {"features": float(np.mean(before)), "best": float(np.mean(after))}
    return {"metric": name, **about, "difference": about["best"] - about["features"], "interval": interval}


def told(result, settings):
    """Returns sentences about the gain in a result, and what to try where there is none for sure; empty without one.

    Args:
        result: what `result.json` holds.
        settings: `Settings` of the run.
    """
    gain = result.get("gain")
    if not gain:
        return ""
    low, high = (f"{100 * bound:.1f}" for bound in gain["interval"])
    won, name, interval = 100 * gain["difference"], gain["metric"], f"95% interval {low} to {high}"
    untrained = result["best"]["step"] == 0
    if gain["interval"][0] > 0:
        winner = "The embedding before training wins" if untrained else "Training won"
        nothing = f" No step made it better.{_advice(settings.values())}" if untrained else ""
        return f"{winner} {won:.1f} points of {name} over the pretrained features ({interval}).{nothing}"
    kept = " The best model is the untrained one." if untrained else ""
    found = f"Training did not win anything for sure: {name} is {won:+.1f} points"
    if gain["interval"][1] < 0 and not untrained:
        found = f"Training lost {-won:.1f} points of {name}"
    return f"{found} beside the pretrained features ({interval}).{kept}{_advice(settings.values())}"


def untried(values):
    """Returns what may help training and has not been tried, such as `larger images, --image_size=224`.

    Args:
        values: name of a flag to its value, of a run that begins with a pretrained backbone.
    """
    if values["backbone"].startswith("identity"):
        # There is no backbone that could learn.
        return []
    return [text for text, tried in ADVICE.items() if not tried(values)][:ADVISED]


def _advice(values):
    """Returns a sentence with the first things that flags have not tried; empty where they have tried all."""
    left = untried(values)
    return f" Try {', or '.join([', '.join(left[:-1]), left[-1]] if left[1:] else left)}." if left else ""


def _rate(values):
    """The learning rate; `auto` has the one that is advised, and others a higher one where they do not say it."""
    name, arguments = registry.parse(values["optimizer"])[0]
    return arguments.get("learning_rate", RATE if name == "auto" else math.inf)


def _side(values):
    """The longer side of images; the backbone's own is the one that suits it."""
    return max(sides_of(values["image_size"])) if values["image_size"] else SIDE
