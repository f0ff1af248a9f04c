"""Images that cannot be read are replaced by others of their class, in the same way every time."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import training_batches
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.reading.unreadable import TRIES, Substitutes
from tests.pipelines.image_files import encoded, noise
from tests.pipelines.strides import Strides

SIDE, STEPS = 6, 8
PREPARE = Preprocessor("random_crop|flip", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
# Classes of sizes 1, 2, 4, 9 and 8, not in order.
LABELS = np.random.default_rng(0).permutation(np.repeat([50, 70, 20, 90, 10], [1, 2, 4, 9, 8]))
FILES = [encoded(noise(9, 9, seed=row), "PNG") for row in range(len(LABELS))]


def split_with(bad=()):
    images = np.array([b"no image" if row in bad else file for row, file in enumerate(FILES)], dtype=object)
    return Split(images, LABELS)


def rows_of(label, count=None):
    return np.flatnonzero(LABELS == label)[:count].tolist()


def sampler():
    return Strides(8, len(LABELS))


def collected(bad=(), substitutes=True, step=0, **options):
    """Images, labels and the `Substitutes` of the steps from `step` to the end of an epoch."""
    split = split_with(bad)
    stand_ins = Substitutes(LABELS) if substitutes else None
    dataset = training_batches(
        split,
        sampler(),
        PREPARE,
        seed=1,
        step=tf.Variable(step, dtype=tf.int64),
        steps_per_epoch=STEPS,
        length=STEPS - step,
        substitutes=stand_ins,
        **options,
    )
    images, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    return np.stack(images), np.stack(labels), stand_ins


def drawn_rows():
    return sampler().rows(1, tf.range(STEPS, dtype=tf.int64)).numpy()


def candidates(row, number=5, seed=1):
    seed, number = tf.constant(seed, tf.int64), tf.constant(number, tf.int64)
    return Substitutes(LABELS).candidates(tf.constant(row, tf.int64), seed, number).numpy().tolist()


@pytest.mark.parametrize("row", range(0, len(LABELS), 3))
def test_candidates_are_the_row_and_others_of_its_class(row):
    found = candidates(row)
    assert found[0] == row and len(found) == 1 + TRIES
    others = set(rows_of(LABELS[row])) - {row} or {row}
    assert set(found[1:]) <= others
    # None comes twice before all have come.
    assert len(set(found[1:])) == min(len(others), TRIES)


def test_candidates_change_with_the_place_and_the_seed_alone():
    row = rows_of(90)[0]
    assert candidates(row) == candidates(row)
    assert len({tuple(candidates(row, number=number)) for number in range(10)}) > 5
    assert len({tuple(candidates(row, seed=seed)) for seed in range(10)}) > 5
    firsts = [candidates(row, number=number)[1] for number in range(80)]
    assert set(firsts) == set(rows_of(90)) - {row}


def test_nothing_changes_where_all_can_be_read():
    found, plain = collected(), collected(substitutes=False)
    np.testing.assert_array_equal(found[0], plain[0])
    np.testing.assert_array_equal(found[1], plain[1])
    assert not found[2].unreadable.numpy().any()


BAD = (*rows_of(90, 3), *rows_of(70, 1), *rows_of(10, 7))


@pytest.mark.slow
def test_a_bad_image_is_replaced_and_nothing_else_changes():
    images, labels, substitutes = collected(BAD)
    plain = collected(substitutes=False)
    np.testing.assert_array_equal(labels, plain[1])
    rows = drawn_rows()
    assert set(BAD) & set(rows.ravel())
    for (step, place), row in np.ndenumerate(rows):
        number = step * rows.shape[1] + place
        taken = next(candidate for candidate in candidates(row, number) if candidate not in BAD)
        assert LABELS[taken] == labels[step, place] and (taken == row) == (row not in BAD)
        expected = PREPARE(tf.constant(FILES[taken]), tf.constant([1, number], tf.int64))
        np.testing.assert_array_equal(images[step, place], expected)
    assert np.flatnonzero(substitutes.unreadable.numpy()).tolist() == sorted(set(BAD) & set(rows.ravel()))


@pytest.mark.nightly
def test_a_run_that_goes_on_and_the_shares_of_workers_have_the_same_substitutes():
    images, labels, _ = collected(BAD)
    rest = collected(BAD, step=3)
    np.testing.assert_array_equal(rest[0], images[3:])
    shares = [collected(BAD, worker=(index, 2)) for index in range(2)]
    np.testing.assert_array_equal(np.concatenate([share[0] for share in shares], axis=1), images)
    np.testing.assert_array_equal(np.concatenate([share[1] for share in shares], axis=1), labels)


@pytest.mark.parametrize("label", [70, 20])
def test_a_class_without_a_good_image_is_an_error(label):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a JPEG, PNG"):
        collected(rows_of(label))


@pytest.mark.nightly
def test_a_missing_file_is_replaced_too(tmp_path):
    paths = []
    for row, file in enumerate(FILES):
        paths.append(str(tmp_path / f"{row}.png"))
        (tmp_path / f"{row}.png").write_bytes(file)
    (tmp_path / f"{BAD[0]}.png").unlink()
    split, substitutes = Split(np.array(paths, dtype=object), LABELS), Substitutes(LABELS)
    step = tf.Variable(0, dtype=tf.int64)
    batches = training_batches(
        split, sampler(), PREPARE, seed=1, step=step, steps_per_epoch=STEPS, substitutes=substitutes
    )
    images = np.stack([images for images, _ in batches.as_numpy_iterator()])
    np.testing.assert_array_equal(images, collected(BAD[:1])[0])
    assert np.flatnonzero(substitutes.unreadable.numpy()).tolist() == [BAD[0]]
