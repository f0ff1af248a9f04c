"""Queries of a run, or of several, with what they find, as the page of a report shows them."""

import dataclasses
from pathlib import PurePath

import numpy as np

from pipelines.images.pictures import image_of
from tfdml.evaluation.retrieved import Retrieved
from tfdml.reporting.neighbors import chosen_queries
from tfdml.reporting.page import gallery_data, neighbors_of
from tfdml.run.subject import NEIGHBORS

# Queries of each kind.
EACH = 40
CLOSENESS = {"cosine": "cosine similarity", "euclidean": "Euclidean distance"}


def gallery_of(subject):
    """Returns the gallery of a run: its worst, best and random queries.

    Args:
        subject: `Subject`.
    """
    retrieved, labels = subject.retrieved, subject.test.labels
    chosen = chosen_queries(retrieved, labels, EACH, subject.experiment.settings.seed)
    rows = {kind: retrieved.queries[chosen[kind]] for kind in ("worst", "best", "random")}
    return _gallery({kind.capitalize(): each for kind, each in rows.items()}, {"": subject}, {"": retrieved})


def gallery_of_several(subjects, queries, alone):
    """Returns the gallery of runs: queries that one alone gets right, and random ones.

    Args:
        subjects: name of a run to its `Subject`, all of the same test images.
        queries: `[Q]` rows of the queries.
        alone: name of a run to booleans `[Q]`, whether it alone gets a query right.
    """
    random = np.random.default_rng(0)
    chosen = {f"Right by {name} alone": random.permutation(queries[each])[:EACH] for name, each in alone.items()}
    chosen["Random"] = random.permutation(queries)[:EACH]
    rows = np.unique(np.concatenate(list(chosen.values())))
    return _gallery(chosen, subjects, {name: _retrieved(subject, rows) for name, subject in subjects.items()})


def _gallery(chosen, subjects, retrieved):
    first = next(iter(subjects.values()))
    test, rows = first.test, np.unique(np.concatenate(list(chosen.values())))
    return gallery_data(
        {kind: each.tolist() for kind, each in chosen.items()},
        {
            name: neighbors_of(retrieved[name], rows, subject.embeddings, subject.distance)
            for name, subject in subjects.items()
        },
        CLOSENESS[first.distance],
        lambda row: image_of(test, row).numpy(),
        lambda row: (_name(test, row), str(first.class_names.get(int(test.labels[row]), test.labels[row]))),
    )


def _retrieved(subject, rows):
    search = dataclasses.replace(subject.search, queries=rows)
    return Retrieved.of(subject.embeddings, search, NEIGHBORS, distance=subject.distance)


def _name(split, row):
    """The name of an image, with its folder."""
    return split.name_of(row) if split.encoded else "/".join(PurePath(split.images[row]).parts[-2:])
