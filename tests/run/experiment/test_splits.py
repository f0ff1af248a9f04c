"""The rows of a run, as its flags divide them, and random meta-classes of a training set."""

import dataclasses

import numpy as np
import pytest

from tfdml.console import flags
from tfdml.console.settings import DataSettings, Settings, values_of
from tfdml.evaluation.protocols import protocol_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment import experiment
from tfdml.run.experiment.experiment import _moved
from tfdml.run.experiment.splits import (
    Splits,
    check_images,
    check_queries,
    of_one_class,
    on_validation,
    random_meta_classes,
    to_record,
)


def splits_of(photos, *more):
    settings, _ = flags.parse("\n".join(["--dataset=folder", f"--data_dir={photos}", *more]))
    return Splits.of(settings.data, settings.evaluation, settings.run.seed)


@pytest.mark.parametrize("more", [["--folds=3", "--fold=2"], ["--validation_classes=0.5", "--validation_seed=7"]])
def test_a_run_that_is_opened_again_has_the_classes_that_it_held_out(photos, tmp_path, more):
    given = ["--dataset=folder", f"--data_dir={photos}", "--evaluate_on=validation", *more]
    run = RunDirectory(tmp_path / "run")
    run.claim(flags.resolve(given))
    opened = run.settings().replace(**{**values_of("in_opened_run"), **on_validation({}, run.path)})
    found = Splits.of(opened.data, opened.evaluation, opened.run.seed).evaluation
    assert found.images.tolist() == splits_of(photos, *given[2:]).evaluation.images.tolist()


def test_meta_classes_replace_the_classes_of_training_only(photos):
    plain = splits_of(photos)
    merged, others = (splits_of(photos, "--meta_classes=2", f"--seed={seed}") for seed in (0, 1))
    assert plain.train.num_classes > 2 == merged.train.num_classes
    # Classes stay whole.
    pairs = set(zip(plain.train.labels.tolist(), merged.train.labels.tolist(), strict=True))
    assert len(pairs) == plain.train.num_classes
    assert merged.train.class_names is None
    np.testing.assert_array_equal(merged.train.images, plain.train.images)
    np.testing.assert_array_equal(merged.test.labels, plain.test.labels)
    again = splits_of(photos, "--meta_classes=2", "--seed=0")
    np.testing.assert_array_equal(again.train.labels, merged.train.labels)
    assert others.train.num_classes == 2


def test_meta_classes_of_images(photos):
    count = len(splits_of(photos).train)
    divided = splits_of(photos, f"--meta_classes={count}", "--meta_classes_of=images")
    assert sorted(divided.train.labels) == list(range(count))


def test_too_many_meta_classes_are_told(photos):
    with pytest.raises(ValueError, match="--meta_classes=99: 99 .* need at least 99 classes, but.*partition the"):
        splits_of(photos, "--meta_classes=99")


def test_mistakes_are_in_training_classes_alone(photos):
    plain, wrong = splits_of(photos), splits_of(photos, "--labels=exchanged(share=0.5)")
    count = len(plain.train)
    assert np.sum(plain.train.numbered().labels != wrong.train.labels) == round(count / 2)
    np.testing.assert_array_equal(wrong.test.labels, plain.test.labels)
    np.testing.assert_array_equal(wrong.train.images, plain.train.images)
    assert wrong.clusters is None


def test_a_fold_needs_the_number_of_folds(photos):
    with pytest.raises(ValueError, match="--fold=3 also needs the number of folds"):
        splits_of(photos, "--evaluate_on=validation", "--fold=3")
    with pytest.raises(ValueError, match="--fold=3 also needs the number of folds"):
        splits_of(photos, "--fold=3")


def test_a_resumed_run_has_as_many_images_as_when_it_began(photos):
    splits = splits_of(photos)
    record = to_record(DataSettings(dataset="folder", data_dir=str(photos)), splits.dataset)
    check_images(record, splits, "runs/a")
    check_images({}, splits, "runs/a")
    test = splits.test.where(np.arange(3))
    fewer = dataclasses.replace(splits.dataset, test=test)
    fewer = dataclasses.replace(splits, dataset=fewer, test=test, evaluation=test)
    with pytest.raises(
        ValueError, match="The test split of folder has 3 images, but had .* when the run in runs/a started"
    ):
        check_images(record, fewer, "runs/a")


def test_a_test_image_that_only_the_end_reads_may_be_removed(photos, caplog):
    splits = splits_of(photos, "--evaluate_on=validation")
    record = to_record(DataSettings(dataset="folder", data_dir=str(photos)), splits.dataset)
    test, train = splits.test.where(np.arange(3)), splits.dataset.train.where(np.arange(5))
    check_images(record, dataclasses.replace(splits, dataset=dataclasses.replace(splits.dataset, test=test)), "runs/a")
    assert "The test split of folder has 3 images" in caplog.text and "only includes the existing images" in caplog.text
    fewer = dataclasses.replace(splits.dataset, test=test, train=train)
    with pytest.raises(ValueError, match="The train split of folder has 5 images"):
        check_images(record, dataclasses.replace(splits, dataset=fewer), "runs/a")


def test_a_split_without_two_images_of_a_class_is_told_before_training(photos):
    splits = splits_of(photos, "--evaluate_on=validation")
    check_queries(splits)
    single = np.unique(splits.test.labels, return_index=True)[1]
    alone = dataclasses.replace(splits, test=splits.test.where(single))
    told = "Each class of the test split has one image, but recall_at_1 needs at least two.*use --dataset=photos"
    with pytest.raises(ValueError, match=told):
        check_queries(alone)
    no_query = dataclasses.replace(splits.test, is_query=np.zeros(len(splits.test), bool))
    marked = dataclasses.replace(splits, test=no_query, protocol=protocol_of("query_gallery"))
    with pytest.raises(ValueError, match="The test split has no query with another image of its class .*recall_at_1"):
        check_queries(marked)
    single = np.unique(splits.evaluation.labels, return_index=True)[1]
    with pytest.raises(ValueError, match="Each class of the validation split has one image"):
        check_queries(dataclasses.replace(splits, evaluation=splits.evaluation.where(single)))
    # What needs no ranks needs no such query.
    check_queries(dataclasses.replace(alone, protocol=splits.protocol.with_metrics(["alignment"])))


def test_a_list_of_bad_images_that_was_cut_is_told_where_a_run_is_measured(photos, tmp_path, monkeypatch, caplog):
    run = RunDirectory(tmp_path)
    run.record_dataset({"images": {"test": len(splits_of(photos).test)}})
    settings = Settings().replace(dataset="folder", data_dir=str(photos))
    opened = [settings, None, "model", None]
    monkeypatch.setattr(experiment, "_opened", lambda *_: opened)
    monkeypatch.setattr(experiment, "ImageData", lambda *_, **__: None)
    monkeypatch.setattr(experiment, "is_chief", lambda strategy: True)
    assert experiment.trained(run.path, "best")[1] == "model" and not caplog.records
    opened[0] = settings.replace(ignore_images=str(tmp_path / "bad.txt"))
    (tmp_path / "bad.txt").write_text(f"{splits_of(photos).test.images[0]}\n")
    caplog.clear()
    experiment.trained(run.path, "best")
    assert f"when the run in {run.path} started. Scores now come from different images." in caplog.text


def test_a_file_below_the_folder_of_the_images_moves_with_it():
    assert _moved("/photos/lists/bad.jsonl", "/photos", "/moved") == "/moved/lists/bad.jsonl"
    assert _moved("/other/bad.jsonl", "/photos", "/moved") == "/other/bad.jsonl"
    assert _moved("", "/photos", "/moved") == "" and _moved("/photos/bad.jsonl", "", "/moved") == "/photos/bad.jsonl"


def test_images_of_one_class_measure_nothing(photos):
    splits = splits_of(photos)
    assert of_one_class(splits) == []
    one = splits.test.where(splits.test.labels == splits.test.labels[0])
    (sentence,) = of_one_class(dataclasses.replace(splits, evaluation=one))
    assert sentence.startswith(f"The validation split has {len(one)} images of one class, so every neighbor is right")
    (sentence,) = of_one_class(dataclasses.replace(splits, evaluation=one, test=one))
    assert sentence.startswith("The test split has ")


def labels_of(classes=23, images=200, seed=0):
    """Uneven classes, each with an image at least; numbers with gaps, in no order."""
    random = np.random.default_rng(seed)
    members = np.concatenate([np.arange(classes), random.integers(0, classes, images - classes) // 2])
    return 7 * random.permutation(members) + 3


def merged(labels, meta_classes):
    """Class: the meta-classes of its images."""
    return {label: set(meta_classes[labels == label].tolist()) for label in np.unique(labels).tolist()}


@pytest.mark.parametrize("count", [1, 2, 5, 22, 23])
def test_whole_classes_are_merged_into_even_numbers_of_classes(count):
    labels = labels_of()
    found = merged(labels, random_meta_classes(labels, count, seed=4))
    assert all(len(meta_classes) == 1 for meta_classes in found.values())
    assert_even([next(iter(meta_classes)) for meta_classes in found.values()], count)


def assert_even(meta_classes, count):
    sizes = np.bincount(meta_classes, minlength=count)
    assert len(sizes) == count and sizes.min() >= 1 and sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("count", [1, 2, 7, 199, 200])
def test_images_are_divided_into_even_numbers_of_images(count):
    assert_even(random_meta_classes(labels_of(), count, seed=4, of="images"), count)


def test_images_of_a_class_are_divided():
    labels = np.repeat([0, 1], 50)
    found = merged(labels, random_meta_classes(labels, 5, seed=0, of="images"))
    assert found == {0: set(range(5)), 1: set(range(5))}


@pytest.mark.parametrize("of", ["classes", "images"])
def test_a_seed_determines_it_and_another_one_changes_it(of):
    labels = labels_of()
    first = random_meta_classes(labels, 5, seed=1, of=of)
    assert first.dtype == np.int64
    np.testing.assert_array_equal(first, random_meta_classes(labels, 5, seed=1, of=of))
    assert np.any(first != random_meta_classes(labels, 5, seed=2, of=of))


def test_merging_does_not_depend_on_the_order_of_images_or_on_the_kind_of_labels():
    labels = labels_of()
    order = np.random.default_rng(1).permutation(len(labels))
    expected = random_meta_classes(labels, 5, seed=0)
    np.testing.assert_array_equal(random_meta_classes(labels[order], 5, seed=0), expected[order])
    names = np.char.zfill(labels.astype(str), 4)
    np.testing.assert_array_equal(random_meta_classes(names.tolist(), 5, seed=0), expected)


def test_all_partitions_into_even_parts_are_equally_probable():
    """Four classes fall into two pairs in three ways; 40 is 3.5 standard deviations of the count of one way."""
    drawn = [random_meta_classes(range(4), 2, seed=seed) for seed in range(600)]
    partner_of_first = [int(np.flatnonzero(part[1:] == part[0])[0]) for part in drawn]
    counts = np.bincount(partner_of_first, minlength=3)
    assert np.all(np.abs(counts - 200) < 40), counts


def test_too_many_meta_classes_of_images_are_an_error():
    labels = np.repeat([4, 8, 9], 2)
    with pytest.raises(
        ValueError, match=r"7 meta-classes need at least 7 images, but the labels have 6\. Use at most 6\."
    ):
        random_meta_classes(labels, 7, seed=0, of="images")
    assert sorted(random_meta_classes(labels, 6, seed=0, of="images")) == list(range(6))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1.5}, {"seed": -1}, {"of": "image"}])
def test_arguments_are_checked(wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        random_meta_classes(**{"labels": [0, 1], "count": 2, "seed": 0} | wrong)


def test_labels_are_a_list_of_classes():
    with pytest.raises(ValueError, match=r"Expected labels of shape \[images\]. Received: shape=\(2, 1\)\."):
        random_meta_classes([[0], [1]], 2, seed=0)
