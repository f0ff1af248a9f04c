"""Galleries of a report: queries of one or several runs with their nearest neighbors."""

import dataclasses
import functools
from pathlib import PurePath

import numpy as np

from pipelines.images.decoding import image_of
from tfdml.console.progress_bar import ProgressBar
from tfdml.reporting import similarity_maps
from tfdml.reporting.page import PlaceShares
from tfdml.reporting.pictures.embeddings import chosen_queries
from tfdml.reporting.subject import NEIGHBORS, looked_up
from tfdml.reporting.tables import gallery_data, neighbors_of, queries_within

# Number of images from which the file size of an image is estimated, which determines how many queries fit.
SAMPLE = 32
# Number of queries for which the inputs of the network are in memory at once.
AT_ONCE = 8
# Kinds of queries of one run. Random queries come first, because they are typical.
KINDS = ("random", "worst", "best")
CLOSENESS = {"cosine": "cosine similarity", "euclidean": "Euclidean distance"}


def gallery_of(subject):
    """Returns the gallery of a run from its `Subject`: random, worst and best queries."""
    retrieved, count = subject.retrieved, _count(subject, kinds=len(KINDS))
    places = chosen_queries(retrieved, subject.test.labels, count, subject.experiment.settings.run.seed)
    chosen = {kind.capitalize(): retrieved.queries[places[kind]] for kind in KINDS}
    found = neighbors_of(retrieved, _rows(chosen), subject.embeddings, subject.distance)
    return _gallery(chosen, subject, {"": found}, places_of(subject, found))


def gallery_of_several(subjects, queries, alone):
    """Returns the gallery of several runs: queries that only one of them gets right, and random queries.

    `subjects` map the names of runs to `Subject` objects with the same test images. `alone` maps these names to
    booleans that mark the queries `[Q]` that only this run gets right. Similarity maps are computed for the first run.
    """
    random, first = np.random.default_rng(0), next(iter(subjects.values()))
    count = _count(first, kinds=len(alone) + 1, models=len(subjects))
    chosen = {f"Right by {name} alone": random.permutation(queries[each])[:count] for name, each in alone.items()}
    chosen["Random"] = random.permutation(queries)[:count]
    rows, found = _rows(chosen), {}
    for name, subject in subjects.items():
        task = dataclasses.replace(subject.task, queries=rows)
        retrieved = looked_up(subject.embeddings, task, NEIGHBORS, distance=subject.distance)
        found[name] = neighbors_of(retrieved, rows, subject.embeddings, subject.distance)
    return _gallery(chosen, first, found, places_of(first, next(iter(found.values()))))


def places_of(subject, found):
    """Returns the `PlaceShares` of queries and their neighbors, from the output of `neighbors_of`.

    The result is None if the model cannot compute what the places of an image contribute, or if the transform shows a
    different part of each image.
    """
    experiment = subject.experiment
    preprocessor = experiment.images.preprocessor(subject.model, experiment.settings.images.test_transform)
    sides = preprocessor.image_shape[:2]
    if not any(found.values()) or not subject.tells_places or preprocessor.seen_part(*sides) is None:
        return None
    shown = [[query, *(row for row, *_ in neighbors)] for query, neighbors in found.items()]
    bar, maps = ProgressBar(sum(map(len, shown)), "image"), {}
    for start in range(0, len(shown), AT_ONCE):
        several = shown[start : start + AT_ONCE]
        inputs = subject.inputs(np.concatenate(several))
        ends = np.cumsum([len(rows) for rows in several])
        for rows, images in zip(several, np.split(inputs, ends[:-1]), strict=True):
            maps[rows[0]] = similarity_maps(subject.model, images)
        bar.add(len(inputs))
    return PlaceShares(maps, functools.cache(preprocessor.seen_part))


def _count(subject, kinds, models=1):
    test = subject.test
    rows = np.random.default_rng(0).choice(len(test), min(SAMPLE, len(test)), replace=False)
    return queries_within([image_of(test, row).numpy() for row in rows], kinds * (1 + models * NEIGHBORS))


def _rows(chosen):
    """Returns the rows of all queries, ascending."""
    return np.unique(np.concatenate(list(chosen.values())))


def _gallery(chosen, subject, found, places=None):
    test = subject.test
    shown = {row for each in found.values() for query in each for row in (query, *(near[0] for near in each[query]))}
    bar = ProgressBar(len(shown), "image")

    def image(row):
        bar.add(1)
        return image_of(test, row).numpy()

    def about(row):
        # The name includes the image's folder, because file names may repeat.
        name = test.name_of(row) if test.encoded else "/".join(PurePath(test.images[row]).parts[-2:])
        return name, str(subject.class_names.get(int(test.labels[row]), test.labels[row]))

    chosen = {kind: rows.tolist() for kind, rows in chosen.items()}
    return gallery_data(chosen, found, CLOSENESS[subject.distance], image, about, places)
