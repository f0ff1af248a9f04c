import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from pipelines.build import STEPS_AT_ONCE, evaluation_batches, training_batches
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import Given, PseudoClasses, PxK, Uniform, WithinClusters
from tests.pipelines.strides import Strides

SIDE = 6
PREPARE = Preprocessor("random_crop|flip", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
PLAIN = Preprocessor("warp", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))


def make_split(rows=24, classes=6):
    pictures = np.random.default_rng(0).integers(0, 256, (rows, 9, 9, 3)).astype(np.uint8)
    files = []
    for picture in pictures:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "PNG")
        files.append(file.getvalue())
    return Split(np.array(files, dtype=object), np.arange(rows) % classes * 10 + 2**33)


SPLIT = make_split()


def pxk():
    sampler = PxK(3, 2)
    sampler.bind(SPLIT.labels)
    return sampler


def make(step=0, sampler=None, preprocess=PREPARE, seed=1, steps_per_epoch=5, **options):
    """`(dataset, its step variable, its sampler)`."""
    sampler = sampler or Strides(6, len(SPLIT))
    step = tf.Variable(step, dtype=tf.int64)
    dataset = training_batches(
        SPLIT, sampler, preprocess, seed=seed, step=step, steps_per_epoch=steps_per_epoch, **options
    )
    return dataset, step, sampler


def collected(dataset):
    """Images and labels of one pass, `([steps, batch, ...], [steps, batch])`."""
    images, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    return np.stack(images), np.stack(labels)


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


LONG = 2 * STEPS_AT_ONCE + 3


@pytest.fixture(scope="module")
def plain_images():
    """The images of all rows without augmentation."""
    return np.stack([PLAIN(tf.constant(contents), tf.zeros([2], tf.int64)) for contents in SPLIT.images])


@pytest.fixture(scope="module")
def whole():
    """Images and labels of the first `LONG` steps, as one epoch."""
    return collected(make(steps_per_epoch=LONG)[0])


def test_batches_hold_the_rows_that_the_sampler_says(plain_images):
    dataset, _, sampler = make(sampler=pxk(), preprocess=PLAIN)
    images, labels = collected(dataset)
    rows = sampler.rows(tf.constant(1, tf.int64), tf.range(5, dtype=tf.int64), sampler.tables()).numpy()
    np.testing.assert_array_equal(labels, SPLIT.labels[rows])
    np.testing.assert_array_equal(images, plain_images[rows])
    assert images.dtype == np.float32 and labels.dtype == np.int64


@pytest.mark.slow
@pytest.mark.parametrize("start", [1, STEPS_AT_ONCE - 1, LONG - 1])
def test_a_run_that_goes_on_sees_the_batches_it_would_have_seen(whole, start):
    rest = collected(make(step=start, steps_per_epoch=LONG, length=LONG - start)[0])
    assert len(whole[0]) == LONG and len(rest[0]) == LONG - start
    assert_same(rest, [part[start:] for part in whole])


def targets_by_hand(sampler, split, seed, step):
    """What a loss learns from in a batch, by the sampler's methods and a loop over rows."""
    tables, steps = sampler.tables(), tf.constant([step], tf.int64)
    rows = sampler.rows(seed, steps, tables)[0].numpy()
    labels = np.array([split.labels[row] for row in rows])
    if sampler.targets == "learners":
        return {"label": labels, "learner": np.repeat(sampler.learners(seed, steps, tables), len(rows))}
    if sampler.targets == "labels":
        return sampler.labels_of(rows, tables).numpy()
    return sampler.relevance(tf.constant(seed, tf.int64), steps, tables)[0].numpy()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "make", [lambda: PseudoClasses(PxK(3, 2)), lambda: WithinClusters(PxK(3, 2)), lambda: Given(3)]
)
def test_each_worker_has_its_part_of_what_the_sampler_says(make):
    sampler, step = make(), tf.Variable(2, dtype=tf.int64)
    pairs = np.array([[row, row + 1, -1] if row % 4 else [row, -1, row + 1] for row in range(0, 24, 2)])
    split = Split(SPLIT.images, np.arange(24), relations=pairs) if isinstance(sampler, Given) else SPLIT
    sampler.bind_split(split)
    if not isinstance(sampler, Given):
        sampler.assign(np.arange(24) % 6 % 2 if isinstance(sampler, WithinClusters) else np.arange(24) % 4)
    options = {"seed": 1, "step": step, "steps_per_epoch": 4, "length": 2, "read": lambda row: row}
    for index in range(2):
        data = training_batches(split, sampler, lambda row, seed: row, worker=(index, 2), **options)
        for number, (_, found) in zip((2, 3), data, strict=True):
            expected = targets_by_hand(sampler, split, 1, number)
            part = tf.nest.map_structure(lambda values, index=index: values[3 * index : 3 * index + 3], expected)
            tf.nest.map_structure(np.testing.assert_array_equal, tf.nest.map_structure(np.asarray, found), part)


def test_an_epoch_begins_anew_at_the_step_then(whole):
    dataset, step, _ = make()
    for start in (0, 10, 5):
        step.assign(start)
        assert_same(collected(dataset), [part[start : start + 5] for part in whole])


@pytest.mark.slow
def test_tables_are_read_at_the_start_of_each_pass():
    dataset, _, sampler = make(sampler=pxk())
    before = collected(dataset)
    rows, starts, sizes = sampler.tables()
    wanted = [table[:3] for table in (starts, sizes)]
    for variable, table in zip(sampler._tables, (rows, *wanted), strict=True):
        variable.assign(table)
    _, labels = collected(dataset)
    assert set(labels.ravel()) == set(SPLIT.labels[:3]) and set(before[1].ravel()) == set(SPLIT.labels)
    for variable, table in zip(sampler._tables, (rows, starts, sizes), strict=True):
        variable.assign(table)
    assert_same(collected(dataset), before)


def test_seeds_change_rows(whole):
    _, labels = collected(make(seed=2)[0])
    assert np.any(labels != whole[1][:5])


def test_each_place_of_each_step_is_augmented_in_its_own_way():
    sampler = Uniform(4)
    sampler.bind(SPLIT.labels)
    # One image in every row, so that only augmentation tells them apart.
    split = Split(np.array([SPLIT.images[0]] * 24, dtype=object), SPLIT.labels)
    step = tf.Variable(0, dtype=tf.int64)
    images, _ = collected(training_batches(split, sampler, PREPARE, seed=1, step=step, steps_per_epoch=15))
    # 16 crops, each mirrored or not.
    assert len({image.tobytes() for image in images.reshape(-1, SIDE, SIDE, 3)}) > 20


@pytest.mark.slow
def test_shares_of_workers_make_the_global_batch(whole):
    shares = [collected(make(step=2, length=3, worker=(index, 3))[0]) for index in range(3)]
    assert_same([np.concatenate(part, axis=1) for part in zip(*shares, strict=True)], [part[2:5] for part in whole])


@pytest.mark.parametrize("worker, parts, places", [((0, 1), 2, slice(0, 6)), ((1, 2), 3, slice(3, 6))])
def test_parts_cut_a_share_in_order(whole, worker, parts, places):
    dataset = make(worker=worker, parts=parts)[0]
    cut = collected(dataset)
    assert len(dataset) == len(cut[0]) == 5 * parts
    assert_same([part.reshape(5, -1, *part.shape[2:]) for part in cut], [part[:5, places] for part in whole])


def test_length_is_known_and_shapes_are_static():
    dataset = make(step=3, length=2)[0]
    assert len(dataset) == 2
    images, labels = dataset.element_spec
    assert images.shape == (6, SIDE, SIDE, 3) and labels.shape == (6,)


def test_a_wrong_length_is_no_silent_loss():
    with pytest.raises(tf.errors.FailedPreconditionError):
        list(make(step=3)[0])


def test_threads_change_nothing(whole):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    assert_same(collected(make(steps_per_epoch=LONG)[0].with_options(options)), whole)


def test_order_is_asked_for_and_sharding_and_tuning_refused():
    for dataset in (make()[0], evaluation_batches(SPLIT, PLAIN, batch_size=4)):
        assert dataset.options().autotune.enabled is False
        assert dataset.options().deterministic is True
        policy = dataset.options().experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.OFF


@pytest.mark.slow
def test_paths_give_what_bytes_give(whole, tmp_path):
    paths = []
    for row, contents in enumerate(SPLIT.images):
        paths.append(str(tmp_path / f"{row}.png"))
        (tmp_path / f"{row}.png").write_bytes(contents)
    _, step, sampler = make()
    split = Split(np.array(paths, dtype=object), SPLIT.labels)
    from_paths = training_batches(split, sampler, PREPARE, seed=1, step=step, steps_per_epoch=5)
    assert_same(collected(from_paths), [part[:5] for part in whole])
    both = [evaluation_batches(rows, PLAIN, batch_size=8) for rows in (split, SPLIT)]
    np.testing.assert_array_equal(*(np.stack(list(batches.as_numpy_iterator())) for batches in both))


@pytest.mark.parametrize("batch_size, batches", [(1, 24), (5, 5), (7, 4), (24, 1), (30, 1)])
@pytest.mark.few_by_day(2)
def test_evaluation_keeps_the_order_and_repeats_the_last_row(plain_images, batch_size, batches):
    dataset = evaluation_batches(SPLIT, PLAIN, batch_size=batch_size)
    assert len(dataset) == batches and dataset.element_spec.shape == (batch_size, SIDE, SIDE, 3)
    images = np.concatenate(list(dataset.as_numpy_iterator()))
    np.testing.assert_array_equal(images, plain_images[np.minimum(np.arange(batches * batch_size), 23)])


@pytest.mark.parametrize("keep", [False, True])
def test_batches_that_are_kept_are_read_once(tmp_path, keep):
    for row, contents in enumerate(SPLIT.images):
        (tmp_path / f"{row}.png").write_bytes(contents)
    paths = [str(tmp_path / f"{row}.png") for row in range(len(SPLIT))]
    split = Split(np.array(paths, dtype=object), SPLIT.labels)
    dataset = evaluation_batches(split, PLAIN, batch_size=5, keep=keep)
    inputs = keras.Input((SIDE, SIDE, 3))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    # Keras asks for no more than the last batch.
    before = model.predict(dataset, verbose=0)
    for path in tmp_path.iterdir():
        path.unlink()
    if keep:
        np.testing.assert_array_equal(model.predict(dataset, verbose=0), before)
    else:
        with pytest.raises(tf.errors.NotFoundError):
            model.predict(dataset, verbose=0)
