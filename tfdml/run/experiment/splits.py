"""Which rows train, which are evaluated while training, and which are the test."""

import dataclasses

from pipelines.datasets import load
from pipelines.datasets.csv import from_anywhere
from pipelines.datasets.dataset import Dataset, Split
from tfdml.evaluation.protocols import Protocol, protocol_of
from tfdml.run.experiment.meta_classes import random_meta_classes


@dataclasses.dataclass(frozen=True)
class Splits:
    """A dataset's rows, as the flags divide them.

    Args:
        dataset: the `Dataset`.
        train: split that is trained on, classes or meta-classes numbered from 0; None where only a test split was
            read.
        evaluation: split that `--evaluate_on` names.
        test: split of the test.
        protocol: `Protocol` that measures a split.
    """

    dataset: Dataset
    train: Split | None
    evaluation: Split
    test: Split
    protocol: Protocol

    @classmethod
    def of(cls, settings, *, classes=None, test_only=False):
        """Reads the dataset.

        Args:
            settings: namespace with the flags' values.
            classes, test_only: as `pipelines.datasets.load` takes them.
        """
        about = {"data_dir": settings.data_dir, "ignore_images": settings.ignore_images}
        dataset = load(settings.dataset, classes=classes, test_only=test_only, **about)
        train, evaluation = _train_and_evaluation(dataset, settings)
        # Losses with proxies count on numbers without a gap.
        train = None if train is None else _with_meta_classes(train.numbered(), settings)
        protocol = protocol_of(settings.protocol or dataset.protocol, settings.metrics)
        if not test_only:
            protocol.selecting(settings.select_by)
        return cls(dataset, train, evaluation, dataset.test, protocol)


def to_record(settings, dataset):
    """Returns the record of a dataset, by which a run is measured on the same rows later, from any folder.

    Args:
        settings: namespace with the flags' values.
        dataset: the `Dataset` that they make.

    Returns:
        `{"images": ..., "flags": ..., "classes": ...}`: the number of images of each split, and, where `flags.txt` does
        not say all, flags to replace, by name, and names of the classes of each split.
    """
    record = {"images": {part: len(split) for part, split in dataset.splits().items()}}
    spec = from_anywhere(settings.dataset, settings.data_dir)
    if spec != settings.dataset:
        record["flags"] = {"dataset": spec}
    if dataset.undivided:
        record["classes"] = dataset.classes()
    return record


def check_images(record, dataset, run_dir):
    """Raises if a dataset has another number of images than when a run began, whose epochs would change.

    Args:
        record, dataset, run_dir: as `changed_images` takes them.
    """
    changed = changed_images(record, dataset, run_dir)
    if changed:
        raise ValueError(f"{changed} Restore its images, or train again in another --run_dir.")


def changed_images(record, dataset, run_dir):
    """A sentence that says which split has another number of images than when a run began; empty if none has.

    Args:
        record: what `to_record` gave then; empty: nothing is known.
        dataset: the `Dataset` now; of splits that were not read nothing is said.
        run_dir: path of the run.
    """
    for part, split in dataset.splits().items():
        count = record.get("images", {}).get(part, len(split))
        if len(split) != count:
            return (
                f"The {part} split of {dataset.name} has {len(split):,} images, and had {count:,} when the run in "
                f"{run_dir} began."
            )
    return ""


def held_out(settings, dataset, evaluation):
    """A sentence for each group of classes that does not train: how many, of how many, and which setting says so."""
    test, train = dataset.test.num_classes, dataset.train.num_classes
    sentences = []
    if dataset.undivided:
        share = f"test_classes={dataset.undivided.test_classes}"
        sentences.append(f"{test} of {test + train} classes are the test, by {share} in --dataset.")
    if settings.evaluate_on == "validation":
        share = f"--folds={settings.folds}" if settings.folds else f"--validation_classes={settings.validation_classes}"
        sentences.append(
            f"{evaluation.num_classes} of {train} training classes are held out for validation, by "
            f"--evaluate_on=validation and {share}."
        )
    return sentences


def validation_seed_of(settings):
    """The seed that decides which classes validate."""
    return settings.seed if settings.validation_seed == -1 else settings.validation_seed


def _with_meta_classes(train, settings):
    if not settings.meta_classes:
        return train
    try:
        labels = random_meta_classes(
            train.labels, settings.meta_classes, seed=settings.seed, of=settings.meta_classes_of
        )
    except ValueError as error:
        raise ValueError(f"--meta_classes={settings.meta_classes}: {error}") from None
    return dataclasses.replace(train, labels=labels, class_names=None)


def _train_and_evaluation(dataset, settings):
    if settings.fold and not settings.folds:
        raise ValueError(f"--fold={settings.fold} needs --folds, their number.")
    if settings.evaluate_on == "test":
        if settings.folds:
            raise ValueError("--folds needs --evaluate_on=validation: folds are made of the training classes.")
        return dataset.train, dataset.test
    seed = validation_seed_of(settings)
    if settings.folds:
        return dataset.fold(settings.fold, settings.folds, seed)
    return dataset.hold_out(settings.validation_classes, seed)
