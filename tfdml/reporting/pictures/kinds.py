"""Pictures of a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tfdml import reporting
from tfdml.evaluation.diversity import learners_of
from tfdml.reporting.subject import looked_up
from tfdml.run.directory.record import Record
from tfdml.run.experiment.clusters import clusters_of, embedded_sample
from tfdml.run.training.result import write_projector

# How many images attention is drawn over, queries of each kind, pairs of each kind, classes, images of a cluster.
SHOWN, QUERIES, PAIRS, CLASSES, TYPICAL = 6, 5, 4, 8, 10
# Recall@K is drawn up to this K.
MOST_RANKS = 100
# Queries of each learner's curve.
MOST_QUERIES = 2000


def _neighbors(subject, folder):
    path = folder / "neighbors.png"
    chosen = reporting.chosen_queries(
        subject.retrieved, subject.test.labels, QUERIES, subject.experiment.settings.run.seed
    )
    titled = {f"{kind.capitalize()} queries": places for kind, places in chosen.items()}
    about = (subject.test.labels, subject.class_names)
    reporting.draw_neighbors(subject.retrieved, titled, *about, subject.thumbnail, path)
    return [path]


def _confused(subject, folder):
    path = folder / "confused.png"
    found = reporting.most_confused(subject.retrieved, subject.test.labels, CLASSES)
    return [path] if reporting.draw_confused(found, subject.class_names, subject.thumbnail, path) else []


def _map(subject, folder):
    path, seed = folder / "map.png", subject.experiment.settings.run.seed
    count = min(len(subject.test), reporting.MOST_ON_MAP)
    # In random order: the first come first where pictures are in each other's way.
    rows = np.random.default_rng(seed).choice(len(subject.test), count, replace=False)
    positions = reporting.map_positions(subject.embeddings[rows], distance=subject.distance, seed=seed)

    def thumbnail(place, side):
        return subject.thumbnail(rows[place], side)

    reporting.draw_embedding_map(positions, subject.test.labels[rows], thumbnail, path)
    return [path]


def _similarities(subject, folder):
    path = folder / "similarities.png"
    reporting.draw_similarities(subject.embeddings, subject.test.labels, path, distance=subject.distance)
    return [path]


def _recall(subject, folder):
    path, count = folder / "recall.png", subject.learner_count
    ranks = reporting.recall_ranks(min(MOST_RANKS, len(subject.search.gallery) - 1))
    curves = {"all learners" if count > 1 else "the best model": (ranks, subject.retrieved.recall(ranks))}
    if count > 1:
        learners = learners_of(subject.embeddings, count)
        for k in range(count):
            alone = looked_up(learners[:, k], subject.search, 1, most=MOST_QUERIES)
            curves[f"learner {k}"] = (ranks, alone.recall(ranks))
    reporting.draw_recall(curves, path)
    return [path]


def _training(subject, folder):
    path = folder / "training.png"
    events = Record(subject.run, subject.result).events
    return [path] if reporting.draw_training(events, path) else []


def _similarity(subject, folder):
    """Pairs of a query and its nearest neighbor: right ones, then wrong ones."""
    retrieved, path, chosen = subject.retrieved, folder / "similarity.png", []
    order = np.random.default_rng(subject.experiment.settings.run.seed).permutation(len(retrieved.queries))
    for right in (True, False):
        places = [place for place in order if retrieved.right[place, 0] == right and retrieved.rows[place, 0] >= 0]
        chosen += places[:PAIRS]
    if not chosen:
        return []
    rows = np.stack([retrieved.queries[chosen], retrieved.rows[chosen, 0]], axis=1)
    inputs = subject.inputs(rows.ravel())
    pairs = [
        (*subject.pixels(images), reporting.similarity_map(subject.model, *images), retrieved.right[place, 0])
        for place, images in zip(chosen, inputs.reshape(len(chosen), 2, *inputs.shape[1:]), strict=True)
    ]
    reporting.draw_similarities_of_places(pairs, path)
    return [path]


def _clusters(subject, folder):
    train, assignment = subject.clusters
    rows, embeddings = embedded_sample(subject.experiment, subject.model, train)
    typical = reporting.typical_rows(embeddings, assignment[rows], TYPICAL)
    sizes = np.bincount(assignment).tolist()
    path = folder / "clusters.png"

    def thumbnail(place, side):
        return subject.thumbnail(rows[place], side, train)

    reporting.draw_clusters(typical, sizes, thumbnail, path)
    return [path]


def _learners(subject, folder):
    labels, count = subject.test.labels, subject.learner_count
    drawn = [folder / "learners.png", folder / "pair_cosines.png"]
    reporting.draw_learners(subject.learners, drawn[0])
    reporting.draw_pair_cosines(subject.learners["pair_cosines"], drawn[1])
    path = folder / "only_one_right.png"
    if reporting.draw_only_one_right(subject.embeddings, labels, count, subject.thumbnail, path):
        drawn.append(path)
    if subject.negative_distances:
        drawn.append(folder / "negative_distances.png")
        reporting.draw_negative_distances(subject.negative_distances, drawn[-1])
    return drawn


def _attention(subject, folder, **chosen):
    # Of different classes, from one end of the split to the other.
    images = subject.inputs(np.linspace(0, len(subject.test) - 1, SHOWN).astype(int))
    path = folder / "attention.png"
    # Half precision adds up to little.
    masks = subject.model.attention_masks(images).numpy().astype(np.float32)
    reporting.draw_attention(subject.pixels(images), masks, path, **chosen)
    return [path]


def _projector(subject, folder):
    del folder
    train, assignment = subject.clusters or (None, None)
    clusters = clusters_of(subject.embeddings, subject.experiment, subject.model, train, assignment)
    write_projector(subject.experiment, subject.embeddings, subject.run, subject.learner_count, clusters)
    return [subject.run.tensorboard / "projector_config.pbtxt"]


def _always(subject):
    del subject
    return True


class Pictures(NamedTuple):
    """Pictures of one kind.

    Args:
        draw: function of a `Subject` and a folder; gives the files that it wrote; PNG files, but for the projector.
        captions: name of a file, without its ending, to what it shows.
        of: which runs have them.
        can_be_drawn: function of a `Subject`: whether it has them.
        if_named: whether they are drawn only where `--only` names them.
    """

    draw: Callable
    captions: dict[str, str]
    of: str = "all runs"
    can_be_drawn: Callable = _always
    if_named: bool = False


PICTURES = {
    "neighbors": Pictures(
        draw=_neighbors,
        captions={"neighbors": "Queries and their nearest neighbors: those of the class in green, others in red"},
    ),
    "confused": Pictures(
        draw=_confused,
        captions={"confused": "Classes that are most often taken for each other"},
    ),
    "similarity": Pictures(
        of="runs whose heads pool one feature map, such as --method=single",
        can_be_drawn=lambda subject: subject.tells_places,
        draw=_similarity,
        captions={
            "similarity": "Which places make a query and its nearest neighbor similar (red), and which do not (blue)"
        },
    ),
    "map": Pictures(
        draw=_map,
        captions={"map": "Map of the test images by t-SNE; frames and dots have the color of the class"},
    ),
    "similarities": Pictures(
        draw=_similarities,
        captions={"similarities": "Similarities of pairs of the same class and of different classes"},
    ),
    "recall": Pictures(
        draw=_recall,
        captions={"recall": "Recall@K against K"},
    ),
    "training": Pictures(
        of="runs of tfdml.train",
        can_be_drawn=lambda subject: subject.run.metrics.is_file(),
        draw=_training,
        captions={"training": "Training curves"},
    ),
    "learners": Pictures(
        of="runs with several learners, such as --method=divide_and_conquer or --method=attention_ensemble",
        can_be_drawn=lambda subject: subject.learner_count > 1,
        draw=_learners,
        captions={
            "learners": "Each learner alone, and the first ones together",
            "pair_cosines": "Cosines of positive, negative and self pairs",
            "only_one_right": "Images that only one learner gets right, with the nearest neighbor by each learner",
            "negative_distances": "Distances of negative pairs within clusters and between clusters",
        },
    ),
    "clusters": Pictures(
        of="runs of --method=divide_and_conquer that have divided the data",
        can_be_drawn=lambda subject: "clusters" in subject.model.pictures() and subject.clusters is not None,
        draw=_clusters,
        captions={"clusters": "Clusters of the training images, each of which one learner learns from"},
    ),
    "attention": Pictures(
        of="runs with attention masks, such as --method=attention_ensemble",
        can_be_drawn=lambda subject: "attention" in subject.model.pictures(),
        draw=_attention,
        captions={"attention": "Where each learner looks: the mean over channels, and single channels, of its mask"},
    ),
    "projector": Pictures(of="all runs", can_be_drawn=_always, draw=_projector, captions={}, if_named=True),
}
