"""The rows of a dataset for training, for evaluation during training, and for the test."""

import dataclasses
import logging
from typing import Literal

import numpy as np

from pipelines.captions import with_captions
from pipelines.dataset import Dataset, Split
from pipelines.datasets import load
from pipelines.datasets.folder import WITHOUT_CLASSES
from pipelines.datasets.loading import from_anywhere
from pipelines.labels import with_levels
from pipelines.sampling import Clusters, each_alone
from tfdml import registry
from tfdml.console.settings import names_with
from tfdml.evaluation.indexes.index import class_members
from tfdml.evaluation.metrics import PairMetric, RankMetric, metric_of
from tfdml.evaluation.protocols import Protocol, protocol_of
from tfdml.registry.arguments import Count, Seed
from tfdml.registry.fields import declared
from tfdml.run.directory.run_directory import RunDirectory


def on_validation(changes, run_dir, otherwise="use another run"):
    """Returns settings that evaluate on the classes that a run has held out for validation.

    `changes` are other settings to replace. If there are no such classes, the error suggests `otherwise`.
    """
    values = RunDirectory(run_dir).settings().values()
    if values["evaluate_on"] != "validation":
        raise ValueError(
            f"The run in {run_dir} has no validation classes. Train with --evaluate_on=validation, or {otherwise}."
        )
    return {**changes, **{name: values[name] for name in names_with(is_of_validation=True)}}


def measurable(dataset, metrics):
    """Returns the metric specs that work for the dataset, and logs the other ones."""
    if dataset.has_classes:
        return metrics
    test = dataset.test

    def can_be_measured(metric):
        of_pairs = test.relations is not None and isinstance(metric, PairMetric) and metric.of_counts
        of_several_labels = test.attributes is not None and metric.takes_several
        return not metric.needs_classes or of_pairs or of_several_labels

    left_out = [spec for spec in metrics if not can_be_measured(metric_of(spec))]
    if left_out:
        message = "%s has no classes, so these metrics are skipped: %s."
        logging.getLogger(__name__).warning(message, dataset.name, ", ".join(left_out))
    return [spec for spec in metrics if spec not in left_out]


@declared
def random_meta_classes(labels, count: Count, *, seed: Seed, of: Literal["classes", "images"] = "classes"):
    """Partitions a training set at random into K meta-classes, Sec. 4.1 of EDMS.

    The paper's Sec. 1 allows both kinds of partition: a meta-class has "only a part of images belonging to one class,
    or images from several distinct image classes". It does not state sizes; here they are as even as possible.

    - `classes`: whole classes are merged, as in DREML, which the paper follows. The numbers of classes in two
      meta-classes differ by at most 1, but the numbers of images may differ by more.
    - `images`: images are divided regardless of their class. The numbers of images differ by at most 1. The images of a
      class mostly belong to different meta-classes, so a loss on meta-classes pushes them apart.

    Example: `meta_classes = random_meta_classes(labels, 50, seed=0)`.

    Args:
        labels: `[M]` class of each image, as integers or names. With `classes`, the order of images does not matter.
            With `images`, only their number matters.
        count: number K of meta-classes.
        seed: seed of the partition.
        of: `classes` or `images`.

    Returns:
        `[M]` int64 meta-class of each image, from 0 to K - 1. No meta-class is empty.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"Expected labels of shape [images]. Received: shape={labels.shape}.")
    things, parts = np.unique(labels, return_inverse=True) if of == "classes" else (labels, np.arange(len(labels)))
    size = len(things)
    if count > size:
        instead = f"Use at most {size}" + (", or partition the images." if of == "classes" else ".")
        raise ValueError(f"{count} meta-classes need at least {count} {of}, but the labels have {size}. {instead}")
    return (np.random.default_rng(seed).permutation(size) % count).astype(np.int64)[parts]


@dataclasses.dataclass(frozen=True)
class Splits:
    """The rows of a dataset, divided according to the flags.

    Args:
        dataset: the `Dataset`.
        train: training split, with classes or meta-classes numbered from 0, or None if only the test split was read.
        evaluation: split that `--evaluate_on` names.
        test: test split.
        protocol: `Protocol` that measures a split.
        clusters: `Clusters` that label the training images. Labels are random clusters before the first clustering. If
            None, classes are the labels.
    """

    dataset: Dataset
    train: Split | None
    evaluation: Split
    test: Split
    protocol: Protocol
    clusters: Clusters | None = None

    @classmethod
    def of(cls, data, evaluation, seed, *, classes=None, test_only=False):
        """Reads the dataset. For `classes` and `test_only`, see `pipelines.datasets.load`."""
        options = {"data_dir": data.data_dir, "ignore_images": data.ignore_images}
        dataset = load(data.dataset, classes=classes, test_only=test_only, **options)
        dataset = with_levels(dataset, data.levels) if data.levels else dataset
        if data.captions:
            dataset = dataclasses.replace(
                dataset, **{part: with_captions(split, data.captions) for part, split in dataset.splits().items()}
            )
        train, evaluated = _train_and_evaluation(dataset, evaluation, seed)
        # Proxy losses need labels without gaps.
        labels = registry.create("labels", data.labels) if data.labels else None
        train = None if train is None else labeled(train.numbered(), data, seed, labels)
        clusters = labels if isinstance(labels, Clusters) else None
        protocol = protocol_of(protocol_spec(dataset, evaluation), measurable(dataset, evaluation.metrics))
        if not test_only:
            protocol.selecting(evaluation.select_by)
        return cls(dataset, train, evaluated, dataset.test, protocol, clusters)

    def measured(self):
        """Returns the splits that a run measures, by name: `test`, and `validation` if it is a different split."""
        validation = {} if self.evaluation is self.test else {"validation": self.evaluation}
        return {"test": self.test, **validation}

    def part_of(self, split):
        """Returns the name of a split, such as `test`, or an empty text if it is not a complete split."""
        by_name = {"test": self.test, "training": self.train, "validation": self.evaluation}
        return next((name for name, each in by_name.items() if each is split), "")


def labeled(train, data, seed, labels=None):
    """Returns the training split, with classes from 0, labeled according to `--meta_classes` and `--labels`."""
    if data.meta_classes:
        try:
            merged = random_meta_classes(train.labels, data.meta_classes, seed=seed, of=data.meta_classes_of)
        except ValueError as error:
            raise ValueError(f"--meta_classes={data.meta_classes}: {error}") from None
        train = dataclasses.replace(train, labels=merged, class_names=None)
    if labels is None:
        return train
    if data.levels or data.meta_classes:
        raise ValueError(f"--labels={data.labels} replaces classes. Remove --levels and --meta_classes.")
    if train.relations is not None:
        raise ValueError(f"--labels={data.labels} cannot be used for a dataset with known pairs. Remove it.")
    try:
        first = labels.first(train.labels, seed)
    except ValueError as error:
        raise ValueError(f"--labels={data.labels}: {error}") from None
    return dataclasses.replace(train, labels=first, class_names=None, class_groups=None, levels=None)


def protocol_spec(dataset, evaluation):
    """Returns the spec of the protocol: from the settings, `levels` for a class hierarchy, or the dataset's own."""
    return evaluation.protocol or ("levels" if dataset.test.level_names else dataset.protocol)


def to_record(data, dataset):
    """Returns the record of a dataset, with which a run can be measured on the same rows later, from any folder.

    Its entries are the number of `images` of each split and, if `flags.txt` is not sufficient, `flags` to replace by
    name and the names of the `classes` of each split.
    """
    record = {"images": {part: len(split) for part, split in dataset.splits().items()}}
    spec = from_anywhere(data.dataset, data.data_dir)
    if spec != data.dataset:
        record["flags"] = {"dataset": spec}
    if dataset.undivided:
        record["classes"] = dataset.classes()
    return record


def check_images(record, splits, run_dir):
    """Raises an error if the number of training or evaluation images has changed; warns about the test images."""
    # If only the end of a run reads the test images, a user may remove an unreadable one at that point.
    at_the_end = ["test"] if "validation" in splits.measured() else []
    others = [part for part in splits.dataset.splits() if part not in at_the_end]
    if changed := changed_images(record, splits.dataset, run_dir, others):
        raise ValueError(f"{changed} Restore its images, or train again in another --run_dir.")
    if changed := changed_images(record, splits.dataset, run_dir, at_the_end):
        logging.getLogger(__name__).warning("%s The result only includes the existing images.", changed)


def changed_images(record, dataset, run_dir, parts):
    """Returns a sentence on a split that has a different number of images than at the start of a run, or an empty text.

    `record` is the result of `to_record` at that time, and `parts` are names of splits to check. Splits that were not
    read are skipped.
    """
    for part, split in dataset.splits().items():
        count = record.get("images", {}).get(part, len(split))
        if part in parts and len(split) != count:
            return (
                f"The {part} split of {dataset.name} has {len(split):,} images, but had {count:,} when the run in "
                f"{run_dir} started."
            )
    return ""


def check_queries(splits):
    """Raises an error if a split has rank metrics but no query with another image of its class."""
    ranked = [each for each in splits.protocol.metrics if isinstance(each, RankMetric) and not each.graded]
    if not ranked or not splits.dataset.has_classes:
        return
    for name, split in splits.measured().items():
        if each_alone(split.labels):
            raise ValueError(
                f"Each class of the {name} split has one image, but {ranked[0].name} needs at least two. "
                f"{WITHOUT_CLASSES}"
            )
        if not any(class_members(task)[1].any() for task in splits.protocol.tasks(split)):
            raise ValueError(
                f"The {name} split has no query with another image of its class in the gallery, which "
                f"{ranked[0].name} needs. Check its labels, and which rows are queries and gallery."
            )


def of_one_class(splits):
    """Returns a sentence for each measured split with images of a single class."""
    effects = {
        "test": "its scores are meaningless. Measure images of several classes.",
        "validation": "no step can be better than another. Hold out more classes with --validation_classes.",
    }
    return [
        f"The {name} split has {len(split):,} images of one class, so every neighbor is right and {effects[name]}"
        for name, split in splits.measured().items()
        if len(np.unique(split.labels)) == 1
    ]


def held_out(evaluation, dataset, evaluated):
    """Returns a sentence for each group of held-out classes, with their number and the setting that determines it."""
    test, train = dataset.test.num_classes, dataset.train.num_classes
    sentences = []
    if dataset.undivided:
        share = f"test_classes={dataset.undivided.test_classes}"
        sentences.append(f"{test} of {test + train} classes are held out for the test ({share} in --dataset).")
    if evaluation.evaluate_on == "validation":
        by_fraction = f"--validation_classes={evaluation.validation_classes}"
        share = f"--folds={evaluation.folds}" if evaluation.folds else by_fraction
        sentences.append(
            f"{evaluated.num_classes} of {train} training classes are held out for validation "
            f"(--evaluate_on=validation and {share})."
        )
    return sentences


def validation_seed_of(evaluation, seed):
    """Returns the seed that selects validation classes, by default the seed of the run."""
    return seed if evaluation.validation_seed == -1 else evaluation.validation_seed


def _train_and_evaluation(dataset, evaluation, seed):
    if evaluation.fold and not evaluation.folds:
        raise ValueError(f"--fold={evaluation.fold} also needs the number of folds. Set --folds.")
    if evaluation.evaluate_on == "test":
        if evaluation.folds:
            raise ValueError("--folds divides the training classes, so it needs --evaluate_on=validation.")
        return dataset.train, dataset.test
    seed = validation_seed_of(evaluation, seed)
    if evaluation.folds:
        return dataset.fold(evaluation.fold, evaluation.folds, seed)
    return dataset.hold_out(evaluation.validation_classes, seed)
