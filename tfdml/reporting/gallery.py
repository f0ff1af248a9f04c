"""Queries of a run, or of several, with what they find, as the page of a report shows them."""

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

# Images whose size as files decides how many queries there are.
SAMPLE = 32
# Queries whose neighbors are in memory at once as the network takes them.
AT_ONCE = 8
# Kinds of queries of one run. The first ones that a page shows are like most.
KINDS = ("random", "worst", "best")
CLOSENESS = {"cosine": "cosine similarity", "euclidean": "Euclidean distance"}


def gallery_of(subject):
    """Returns the gallery of the run of a `Subject`: its random, worst and best queries."""
    retrieved, count = subject.retrieved, _count(subject, kinds=len(KINDS))
    places = chosen_queries(retrieved, subject.test.labels, count, subject.experiment.settings.run.seed)
    chosen = {kind.capitalize(): retrieved.queries[places[kind]] for kind in KINDS}
    found = neighbors_of(retrieved, _rows(chosen), subject.embeddings, subject.distance)
    return _gallery(chosen, subject, {"": found}, places_of(subject, found))


def gallery_of_several(subjects, queries, alone):
    """Returns the gallery of runs: queries that one alone gets right, and random ones; with places of the first run.

    Subjects, by the names of their runs, have the same test images. Of the queries `[Q]`, `alone` has booleans for each
    run.
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
    """Returns the `PlaceShares` of queries and their neighbors, as `neighbors_of` returns them.

    There are none of a model that cannot tell what the places of an image contribute, and none if the transform shows
    another part of each image.
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
    """The rows of all queries, ascending."""
    return np.unique(np.concatenate(list(chosen.values())))


def _gallery(chosen, subject, found, places=None):
    test = subject.test
    shown = {row for each in found.values() for query in each for row in (query, *(near[0] for near in each[query]))}
    bar = ProgressBar(len(shown), "image")

    def image(row):
        bar.add(1)
        return image_of(test, row).numpy()

    def about(row):
        # With the folder of the image.
        name = test.name_of(row) if test.encoded else "/".join(PurePath(test.images[row]).parts[-2:])
        return name, str(subject.class_names.get(int(test.labels[row]), test.labels[row]))

    chosen = {kind: rows.tolist() for kind, rows in chosen.items()}
    return gallery_data(chosen, found, CLOSENESS[subject.distance], image, about, places)
