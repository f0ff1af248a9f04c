"""Images as people have them: every way gives the same rows."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.reading.sources import class_numbers, read_dataset, source_of
from tests.pipelines.test_build import make_split

CONTENTS = make_split(rows=6).images.tolist()
PICTURES = np.stack([tf.io.decode_png(contents).numpy() for contents in CONTENTS])
LABELS = np.array([7, 7, 3, 3, 9, 9])
SEVERAL = [picture[: 3 + row] for row, picture in enumerate(PICTURES)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(6)]
    for path, contents in zip(paths, CONTENTS, strict=True):
        path.write_bytes(contents)
    return paths


def rows_of(source):
    """All rows, read as the pipeline does: in a graph."""
    rows = tf.data.Dataset.range(6).map(source.read)
    return rows.element_spec, list(rows.as_numpy_iterator())


def test_files_and_their_contents(files):
    texts = [str(path) for path in files]
    ways = [files, texts, np.array(texts), tf.constant(texts), CONTENTS, np.array(CONTENTS, object)]
    ways += [read_dataset(tf.data.Dataset.from_tensor_slices((given, LABELS)))[0] for given in (texts, CONTENTS)]
    for images in ways:
        source = source_of(images)
        assert source.encoded and source.count == 6
        spec, found = rows_of(source)
        assert found == CONTENTS and spec == tf.TensorSpec([], tf.string)


def test_arrays():
    for images in (PICTURES, tf.constant(PICTURES), list(PICTURES), PICTURES.tolist()):
        source = source_of(images)
        assert not source.encoded and source.count == 6
        spec, found = rows_of(source)
        np.testing.assert_array_equal(found, PICTURES)
        assert spec.shape == PICTURES.shape[1:]


def test_arrays_of_several_sizes():
    spec, found = rows_of(source_of(SEVERAL))
    assert spec.shape.as_list() == [None, None, 3] and spec.dtype == tf.uint8
    for one, other in zip(found, SEVERAL, strict=True):
        np.testing.assert_array_equal(one, other)


def test_functions(files):
    texts, kept = tf.constant([str(path) for path in files]), tf.constant(PICTURES)
    for read in (lambda row: kept[row], lambda row: tf.numpy_function(lambda row: PICTURES[row], [row], tf.uint8)):
        source = source_of(read)
        spec, found = rows_of(source)
        np.testing.assert_array_equal(found, PICTURES)
        assert spec.shape[2] == 3 and not source.encoded and source.count is None
    source = source_of(lambda row: tf.io.read_file(texts[row]))
    assert source.encoded and rows_of(source)[1] == CONTENTS
    with pytest.raises(TypeError, match="tf.numpy_function"):
        rows_of(source_of(lambda row: PICTURES[row]))


@pytest.mark.parametrize("batch_size", [None, 4])
def test_datasets_are_read(batch_size):
    dataset = tf.data.Dataset.from_tensor_slices((PICTURES, LABELS.astype(np.int32)))
    images, labels = read_dataset(dataset.batch(batch_size) if batch_size else dataset)
    np.testing.assert_array_equal(images, PICTURES)
    assert labels.tolist() == LABELS.tolist()


def test_a_dataset_of_several_sizes_is_read():
    about = (tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([], tf.int64))
    dataset = tf.data.Dataset.from_generator(lambda: zip(SEVERAL, LABELS, strict=True), output_signature=about)
    images, _ = read_dataset(dataset)
    assert [image.shape for image in images] == [image.shape for image in SEVERAL]


def test_labels():
    for labels in (LABELS, LABELS.tolist(), LABELS[:, None].astype(np.uint8), tf.constant(LABELS)):
        found = class_numbers(labels)
        assert found.tolist() == LABELS.tolist() and found.dtype == np.int64
    names = ["wren", "crow", "ant", "crow"]
    for labels in (names, np.array(names), np.array(names, object), [name.encode() for name in names]):
        assert class_numbers(labels).tolist() == [2, 1, 0, 1]
    large = np.array([2**64 - 1, 7, 2**63, 7], np.uint64)
    assert class_numbers(large).tolist() == [2, 0, 1, 0] and class_numbers(large // 2).tolist()[0] == 2**63 - 1


SLICES, ONE_HOT = tf.data.Dataset.from_tensor_slices, np.eye(3)[LABELS // 3 - 1]
BAD = {
    "none": (lambda: source_of([]), "images is empty"),
    "mixed": (lambda: source_of(["a.png", *PICTURES[1:]]), "paths, contents of files, or arrays with one dtype"),
    "missing": (lambda: source_of(["/none/a.png"] * 6), "6 of 6 image files are missing: '/none/a.png'.* start from"),
    "one_hot": (lambda: class_numbers(ONE_HOT), r"Received: labels of shape \(6, 3\).*np.argmax"),
    "fractions": (lambda: class_numbers(LABELS / 2), "integers or strings. Received: dtype=float64"),
    "images_alone": (lambda: read_dataset(SLICES(PICTURES)), "elements .image, label."),
    "endless": (lambda: read_dataset(SLICES((PICTURES, LABELS)).repeat()), "is infinite"),
    "one_hot_rows": (lambda: read_dataset(SLICES((PICTURES, ONE_HOT))), "one integer class label per image.*np.argmax"),
    "one_hot_batches": (
        lambda: read_dataset(SLICES((PICTURES, ONE_HOT)).batch(2)),
        "one integer class label per image",
    ),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=BAD)
def test_what_is_wrong_is_told(make, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make()


def test_a_file_that_is_no_image_is_named(files, tmp_path):
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.raises(ValueError, match=f"{tmp_path}/text.jpg is not a readable image"):
        source_of([*files, tmp_path / "text.jpg"])
