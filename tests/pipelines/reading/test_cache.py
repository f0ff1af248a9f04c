"""A cache gives what reading gives, and reads once."""

import functools
import os
import time

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from pipelines.build import evaluation_batches, training_batches
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.reading import cache as cache_module
from pipelines.reading.cache import KINDS, Cache, free_memory
from tests.night import others_at_night
from tests.pipelines.image_files import encoded, noise
from tests.pipelines.strides import Strides
from tfdml.console.flags import define_training

ROWS = 10
PLENTY = 10**9
# Nothing of the first is the same every time; the first step of the second is, all of the third, and of the last the
# step that gives the images their size.
CHAINS = (
    "random_resized_crop|flip",
    "resize_short(size=12)|random_crop|flip",
    "resize_short|center_crop",
    "warp|flip",
)
KINDS_AND_CHAINS = [(kind, chain) for kind in ("bytes", "pixels") for chain in CHAINS]


def test_the_flag_offers_the_kinds_that_there_are():
    values = flags.FlagValues()
    define_training(values)
    assert tuple(values["cache"].parser.enum_values) == KINDS


def write_images(folder):
    """Files of several kinds and sizes."""
    paths = []
    for row in range(ROWS):
        paths.append(folder / f"{row}.{('jpg', 'png')[row % 2]}")
        paths[-1].write_bytes(encoded(noise(20 + row, 40 - 2 * row, seed=row), ("JPEG", "PNG")[row % 2]))
    return Split(np.array([str(path) for path in paths], dtype=object), np.arange(ROWS) % 3)


@pytest.fixture
def split(tmp_path):
    return write_images(tmp_path)


@pytest.fixture
def make_cache(tmp_path):
    def make(kind, memory=PLENTY, **options):
        return Cache(kind, memory=memory, folder=tmp_path / "kept", **options)

    return make


def prepared(chain, **options):
    return Preprocessor(chain, image_size=8, mean=(1, 2, 3), std=(4, 5, 6), **options)


def batches(split, preprocessor, cache=None):
    """Images of two training batches, and of all rows as evaluation sees them."""
    read, preprocess = cache.through(split, preprocessor) if cache else (None, preprocessor)
    step = tf.Variable(3, dtype=tf.int64)
    training = training_batches(
        split, Strides(6, ROWS), preprocess, seed=1, step=step, steps_per_epoch=5, length=2, read=read
    )
    evaluation = evaluation_batches(split, preprocess, batch_size=4, read=read)
    return [images for images, _ in training.as_numpy_iterator()] + list(evaluation.as_numpy_iterator())


def assert_same(found, expected):
    assert len(found) == len(expected) == 5
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def uncached(tmp_path_factory):
    """Function from a transform to the batches without a cache, which are the same wherever the images are."""
    split = write_images(tmp_path_factory.mktemp("images"))
    return functools.cache(lambda chain: batches(split, prepared(chain)))


def kinds_and_chains():
    """Bytes are kept whatever is made of them; what else than the first chain does with them is for the nights."""
    return others_at_night(KINDS_AND_CHAINS, lambda case: case[0] != "bytes" or case[1] == CHAINS[0])


@pytest.mark.nightly
@pytest.mark.parametrize("memory", [PLENTY, 0], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kind, chain", kinds_and_chains())
def test_batches_are_the_same(split, uncached, make_cache, kind, memory, chain):
    cache = make_cache(kind, memory)
    assert_same(batches(split, prepared(chain), cache), uncached(chain))
    assert cache.folder.exists() == (memory == 0)


def test_without_a_cache_nothing_is_kept(split, make_cache):
    cache, preprocessor = make_cache("none", 0), prepared(CHAINS[0])
    assert cache.through(split, preprocessor) == (None, preprocessor) and not cache.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bytes", "pixels"])
@pytest.mark.few_by_day(1)
def test_boxes_are_cropped_to_once(split, make_cache, kind):
    boxes = np.array([[3, 2, 15, 14]] * ROWS, np.int32)
    split = Split(split.images, split.labels, boxes=boxes)
    assert_same(batches(split, prepared(CHAINS[1]), make_cache(kind)), batches(split, prepared(CHAINS[1])))


@pytest.mark.parametrize("kind, memory", [("bytes", PLENTY), ("pixels", 0)])
@pytest.mark.few_by_day(1)
def test_files_are_read_once(split, uncached, make_cache, tmp_path, kind, memory):
    cache, preprocessor = make_cache(kind, memory), prepared(CHAINS[1])
    cache.through(split, preprocessor)
    for path in tmp_path.glob("*.*g"):
        path.unlink()
    assert_same(batches(split, preprocessor, cache), uncached(CHAINS[1]))


def test_images_in_memory_are_decoded_once(split, uncached, make_cache):
    encoded_split = Split(np.array([open(path, "rb").read() for path in split.images], dtype=object), split.labels)
    assert make_cache("bytes").through(encoded_split, prepared(CHAINS[0]))[0] is None
    assert_same(batches(encoded_split, prepared(CHAINS[0]), make_cache("pixels")), uncached(CHAINS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bytes", "pixels"])
@pytest.mark.few_by_day(1)
def test_the_next_run_finds_what_is_on_disk(split, uncached, make_cache, monkeypatch, kind):
    make_cache(kind, 0).through(split, prepared(CHAINS[2]))
    monkeypatch.setattr(Cache, "_made", None)
    assert_same(batches(split, prepared(CHAINS[2]), make_cache(kind, PLENTY)), uncached(CHAINS[2]))


@pytest.mark.slow
def test_what_has_changed_is_read_again(split, make_cache):
    preprocessor = prepared(CHAINS[2])
    make_cache("bytes", 0).through(split, preprocessor)
    with open(split.images[4], "wb") as file:
        file.write(encoded(noise(30, 30, seed=99), "JPEG"))
    cache = make_cache("bytes", 0)
    assert_same(batches(split, preprocessor, cache), batches(split, preprocessor))
    assert len(list(cache.folder.iterdir())) == 2


@pytest.mark.nightly
def test_another_transform_has_pixels_of_its_own(split, uncached, make_cache):
    cache = make_cache("pixels", 0)
    for chain in CHAINS:
        cache.through(split, prepared(chain))
    assert len(list(cache.folder.iterdir())) == len(CHAINS)
    assert_same(batches(split, prepared(CHAINS[0]), cache), uncached(CHAINS[0]))


def test_memory_is_shared_by_all_splits(split, make_cache):
    half, rest = split.where(slice(0, 5)), split.where(slice(5, 10))
    size = sum(len(open(path, "rb").read()) for path in half.images)
    cache = make_cache("bytes", size)
    for part in (half, half, rest):
        cache.through(part, prepared(CHAINS[0]))
        assert cache.folder.exists() == (part is rest)


@pytest.mark.parametrize("memory", [PLENTY, 0], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kind, content", [("bytes", None), ("pixels", None), ("pixels", b"no image")])
def test_an_image_that_cannot_be_read_is_named(split, make_cache, tmp_path, kind, content, memory):
    path = tmp_path / "6.jpg"
    path.unlink()
    if content:
        path.write_bytes(content)
    cache = make_cache(kind, memory)
    with pytest.raises(ValueError, match=f"Cannot read {path}: .*. Replace it or remove it."):
        cache.through(split, prepared(CHAINS[0]))
    assert not cache.folder.exists() or not list(cache.folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("memory", [PLENTY, 0], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kind, chain", KINDS_AND_CHAINS)
@pytest.mark.few_by_day(1)
def test_where_bad_images_are_tolerated_they_stay_unreadable(split, make_cache, chain, kind, memory):
    with open(split.images[6], "wb") as file:
        file.write(b"no image")
    read, preprocess = make_cache(kind, memory, tolerant=True).through(split, prepared(chain))
    for row in range(ROWS):
        contents = read(tf.constant(row, tf.int64))
        if row == 6:
            with pytest.raises(tf.errors.InvalidArgumentError):
                preprocess(contents, tf.zeros([2], tf.int64))
        else:
            assert preprocess(contents, tf.zeros([2], tf.int64)).shape == (8, 8, 3)


def test_a_folder_that_cannot_be_written_is_told(split, tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(OSError, match=f"Cannot cache images in {tmp_path / 'kept'}/bytes-.*--cache_dir"):
        Cache("bytes", memory=0, folder=tmp_path / "kept").through(split, prepared(CHAINS[0]))


def test_what_a_killed_process_was_writing_is_removed(split, make_cache, tmp_path):
    """A day later, when no process can be writing it any more."""
    killed, writing = (tmp_path / "kept" / f".writing-{name}" / "0" for name in ("killed", "now"))
    for folder in (killed, writing):
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(b"half")
    os.utime(killed.parent, (time.time() - 25 * 60 * 60,) * 2)
    make_cache("bytes", memory=0).through(split, prepared("warp"))
    assert not killed.parent.exists() and (writing / "0").is_file()


@pytest.mark.slow
def test_pixels_are_refused_where_a_random_crop_decides_how_they_are_decoded(split, make_cache):
    with pytest.raises(ValueError, match="--cache=bytes"):
        make_cache("pixels").through(split, prepared(CHAINS[0], shrink=True))
    chosen = prepared(CHAINS[2], shrink=True)
    assert_same(batches(split, chosen, make_cache("pixels")), batches(split, chosen))


def test_free_memory_is_read_in_bytes(tmp_path, monkeypatch):
    about = tmp_path / "meminfo"
    monkeypatch.setattr(cache_module, "MEMINFO", about)
    about.write_text("MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:   3000 kB\n")
    assert free_memory() == 3000 * 1024


def test_elsewhere_it_is_half_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "MEMINFO", tmp_path / "no")
    assert free_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
