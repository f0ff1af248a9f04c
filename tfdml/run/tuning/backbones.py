"""Choice of a backbone: a head is trained on stored features from each network, with the same budget."""

import itertools
import os
from pathlib import Path
from typing import NamedTuple

from pipelines.datasets.embeddings import read_alike
from tfdml.console import scores
from tfdml.console.command import aligned
from tfdml.console.flags import features_spec
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.tuning.outcome import CAUTION
from tfdml.run.tuning.state import SPACE

FLAG = "features"
# What the trials of each backbone differ in. Two initial embeddings are faster than `auto`, which each trial would
# repeat.
CHOICES = {
    "optimizer": [each["optimizer"] for each in SPACE["optimizer"]],
    "initial_embedding": ["lda", "wccn"],
}


class StoredFeatures(NamedTuple):
    """The features of the photos by one network.

    `name` is the path that the user has set, `flag` is the flag `--dataset` of their dataset, and `images_per_second`
    is the speed at which they were computed, or None if it is not known.
    """

    name: str
    flag: str
    dims: int
    images_per_second: float | None


def stored_features(paths):
    """Returns the `StoredFeatures` of each path. Raises a ValueError if they are not of the same photos."""
    if not paths:
        return []
    if len(set(map(os.path.abspath, paths))) < len(paths):
        raise ValueError(f"--features={','.join(paths)} has a folder twice. Expected each folder once.")
    try:
        files = read_alike(tuple(paths))
    except ValueError as error:
        raise ValueError(f"--features: {error} Embed the same images with each network.") from None
    speeds = [(Path(path) / MANIFEST).is_file() and EmbeddingShards(path).images_per_second for path in paths]
    return [
        StoredFeatures(path, f"--dataset={features_spec(path)}", file.embeddings.shape[1], speed or None)
        for path, file, speed in zip(paths, files, speeds, strict=True)
    ]


def alternatives(features, first, fixed):
    """Returns the alternatives to the first trial, as `{name: "--name=value"}`.

    All features have the same choices. The choices of the first trial, which has the flags `first`, are tried first, so
    each backbone has been trained with them even if the time ends early.
    """
    of_flags = []
    for name, values in CHOICES.items():
        lines = [] if name in fixed else [f"--{name}={value}" for value in values]
        of_flags.append(dict.fromkeys([first[name], *lines]))
    drawn = []
    for *chosen, each in itertools.product(*of_flags, features):
        trial = {"dataset": each.flag, **dict(zip(CHOICES, chosen, strict=True))}
        drawn.append({name: flag for name, flag in trial.items() if flag != first[name]})
    return drawn[1:]


def best_trials(state, features):
    """Returns the `RungScore` of the best trial of each `StoredFeatures` that has one, best first, as pairs."""
    best = {}
    for each in state.ranked():
        flag = state.changes[each.trial].get("dataset", state.flags["dataset"])
        best.setdefault(flag, each)
    of_flag = {each.flag: each for each in features}
    return [(of_flag[flag], score) for flag, score in best.items() if flag in of_flag]


def table(state, features, folder):
    """Returns a table with the best trial of each `StoredFeatures`, best first."""
    name = scores.titled(state.metric)
    heads = ["features", "dimensions", "images per second", f"{name} without training", name, "95% CI", "flags"]
    rows = []
    for each, best in best_trials(state, features):
        untrained = RunDirectory(folder.trial(best.trial)).complete_result().get("features", {}).get(state.metric)
        rows.append(
            [
                each.name,
                f"{each.dims:,}",
                f"{each.images_per_second:,.0f}" if each.images_per_second else "-",
                scores.score(state.metric, untrained),
                scores.score(state.metric, best.score),
                scores.interval(state.metric, best.interval) if best.interval else "",
                " ".join(state.changes[best.trial].get(name, state.flags[name]) for name in CHOICES),
            ]
        )
    missing = {each.name for each in features} - {row[0] for row in rows}
    failed = [f"Failed: trial {number:03}: {why}" for number, why in state.failed.items()]
    untried = [f"No trial of {each} is complete. Set a larger --minutes." for each in sorted(missing)]
    return "\n".join([aligned([heads, *rows], left=[0, 6]), *failed, *untried])


def sentences(state, features, found):
    """Returns sentences about the best backbone and its leads over the others."""
    best = best_trials(state, features)[0][0].name
    return [f"Best features: {best}.", *(lead.in_words(state.metric) for lead in found), CAUTION]
