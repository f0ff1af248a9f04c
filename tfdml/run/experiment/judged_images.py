"""Images with labels that embeddings judge, and clusters in the embedding of a run."""

import dataclasses
import os
from typing import NamedTuple

import numpy as np

from pipelines.dataset import Split, names_in_list
from tfdml.evaluation.verification.pair_list import named_embeddings
from tfdml.files.embeddings import EmbeddingFiles, read_arrays
from tfdml.run.experiment.experiment import AMONG_RUNS, trained
from tfdml.run.experiment.images import ImageData
from tfdml.run.experiment.splits import on_validation


class Judge(NamedTuple):
    """What a model contributes: the rows `[n]` that it judges, their embeddings `[n, d]` and the distance."""

    rows: np.ndarray
    embeddings: np.ndarray
    distance: str


@dataclasses.dataclass(frozen=True)
class JudgedImages:
    """Images and the models that judge their labels.

    Args:
        labels: class labels `[N]`.
        class_names: dictionary from label to name.
        names: N names of images, as `--ignore_images` reads them.
        judges: list of `Judge`.
        split: split with the images, or None if there are only embeddings.
    """

    labels: np.ndarray
    class_names: dict
    names: list
    judges: list
    split: Split | None = None

    @classmethod
    def of_files(cls, paths, labels="", *, data_dir="", part="train", distance="cosine"):
        """Reads files with embeddings of the same images by several models, which any software may have written.

        Args:
            paths: files or folders, see `EmbeddingFiles.read`. They name images by an array `names` or by paths.
            labels: `.npy` file with the labels of `.npy` files.
            data_dir: folder that paths are relative to.
            part: split of rows without names.
            distance: `cosine` or `euclidean`.
        """
        files = [EmbeddingFiles.read(path, labels) for path in paths]
        first, names = files[0], [_names(path) for path in paths]
        for path, each, named in zip(paths[1:], files[1:], names[1:], strict=True):
            if _labels(each) != _labels(first) or named != names[0]:
                raise ValueError(
                    f"{paths[0]} and {path} have different images or labels. Use embeddings of the same rows."
                )
        judges = [Judge(np.arange(len(first.labels)), each.embeddings, distance) for each in files]
        split, in_list = None, []
        if names[0] is not None:
            images = [os.path.join(data_dir, name) for name in names[0]]
            split = Split(np.array(images, object), first.labels)
            in_list = names_in_list(split, part, data_dir)
            split = split if all(map(os.path.isfile, images)) else None
        in_list = in_list or [f"{part}#{row}" for row in range(len(first.labels))]
        return cls(first.labels, first.class_names or {}, in_list, judges, split)

    @classmethod
    def of_runs(cls, run_dirs, part, which="best", changes=()):
        """Embeds images with the `best` or `final` models of runs on one dataset.

        `part` is `train`, `test` or `validation`. With `validation`, each run judges the training classes that it has
        held out. `changes` replaces settings of the runs.
        """
        judges, first, experiment = [], None, None
        changes = {**AMONG_RUNS, **dict(changes)}
        for run_dir in run_dirs:
            settings = on_validation(changes, run_dir, "use --split=train") if part == "validation" else changes
            experiment, model = trained(run_dir, which, settings, test_only=part == "test")
            dataset = experiment.splits.dataset
            split = dataset.test if part == "test" else dataset.train
            first = split if first is None else first
            if not (np.array_equal(split.labels, first.labels) and np.array_equal(split.identities, first.identities)):
                raise ValueError(
                    f"{run_dirs[0]} and {run_dir} have different images or labels. Use runs on the same dataset."
                )
            held_out = np.isin(split.labels, experiment.splits.evaluation.labels)
            rows = np.flatnonzero(held_out) if part == "validation" else np.arange(len(split))
            distance = experiment.splits.protocol.distance
            judges.append(Judge(rows, experiment.embed(model, split.where(rows)), distance))
        names = names_in_list(first, "test" if part == "test" else "train", experiment.settings.data.data_dir)
        return cls(first.labels, first.class_names or {}, names, judges, first)

    def named(self, label):
        return str(self.class_names.get(int(label), label))


def _labels(file):
    """Returns the label of each row of `EmbeddingFiles` as text."""
    names = file.class_names or {}
    return [str(names.get(label, label)) for label in file.labels.tolist()]


def _names(path):
    """Returns the names of the images in a file or a folder, or None without names."""
    has_names = os.path.isdir(path) or (str(path).endswith(".npz") and "names" in read_arrays(path))
    return list(named_embeddings(path)[1]) if has_names else None


# Maximum number of training images to embed for the means of clusters and for typical images.
MOST_TRAINING = 4000


def embedded_sample(experiment, model, train):
    """Embeds the training images or a random sample; returns their ascending rows and their embeddings."""
    rows = np.arange(len(train))
    if len(rows) > MOST_TRAINING:
        random = np.random.default_rng(experiment.settings.run.seed)
        rows = np.sort(random.choice(rows, MOST_TRAINING, replace=False))
        # A cache would not help, because each image is read once.
        settings = dataclasses.replace(experiment.settings.images, cache="none")
        train = train.where(rows)
        experiment = dataclasses.replace(experiment, images=ImageData(settings, experiment.strategy))
    return rows, experiment.embed(model, train, tolerant=True)


def clusters_of(embeddings, experiment, model, train, assignment):
    """Returns the cluster `[N]` of each test image, which is the cluster with the nearest mean of training images.

    `assignment` is the cluster of each training image. If it is None, so is the result.
    """
    if assignment is None:
        return None
    rows, sample = embedded_sample(experiment, model, train)
    return nearest_means(embeddings, sample, assignment[rows])


def nearest_means(embeddings, points, clusters):
    """Returns for each embedding `[N, d]` the cluster with the nearest mean, of points `[P, d]` in clusters `[P]`."""
    numbers, places, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    means = np.zeros([len(numbers), points.shape[1]])
    np.add.at(means, places, points)
    means /= counts[:, None]
    # These are squared distances without the term that all clusters have in common.
    return numbers[np.argmin(np.sum(means**2, axis=1) - 2 * embeddings @ means.T, axis=1)]
