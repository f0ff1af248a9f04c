"""Datasets of TensorFlow Datasets are read, small ones that the tests prepare."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import load
from pipelines.datasets.tfds import tfds


def pictures(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 12, 10, 3), np.uint8)


@pytest.fixture(scope="module")
def prepare(tmp_path_factory):
    """Function that prepares a dataset with the given labels in each split, and gives the folder of all datasets."""
    import tensorflow_datasets

    def make(name, splits, label="label", image=None, version="1.0.0", folder=None, class_names=None, dtype="uint8"):
        features = tensorflow_datasets.features

        class Builder(tensorflow_datasets.core.GeneratorBasedBuilder, skip_registration=True):
            # Else the builder looks for the checksums of downloads, which takes one package more.
            code_path = None
            VERSION = tensorflow_datasets.core.Version(version)

            def _info(self):
                classes = features.ClassLabel(names=class_names) if class_names else features.ClassLabel(num_classes=20)
                described = {"image": image or features.Image(), label: classes, "other": features.Image()}
                return self.dataset_info_from_configs(features=features.FeaturesDict(described))

            def _split_generators(self, dl_manager):
                return {part: self._generate_examples(part, labels) for part, labels in splits.items()}

            def _generate_examples(self, part, labels):
                for number, (label_number, pixels) in enumerate(zip(labels, pictures(len(labels)), strict=True)):
                    yield f"{part}{number:04d}", {"image": pixels.astype(dtype), label: label_number, "other": pixels}

        Builder.name = name
        folder = folder or tmp_path_factory.mktemp("prepared")
        Builder(data_dir=str(folder)).download_and_prepare()
        return folder

    return make


def decoded(contents):
    return np.asarray(Image.open(io.BytesIO(contents)))


def test_classification_splits_are_divided_by_class(prepare):
    folder = prepare("cars", {"train": [0, 1, 2, 3], "test": [3, 2, 1, 0, 0]}, class_names=["a", "b", "c", "d"])
    dataset = load("tfds(name='cars')", data_dir=str(folder))
    assert sorted(dataset.train.labels) == [0, 0, 0, 1, 1] and sorted(dataset.test.labels) == [2, 2, 3, 3]
    assert dataset.test.class_names == {0: "a", 1: "b", 2: "c", 3: "d"}
    assert dataset.train.encoded and dataset.name == "tfds(cars)" and dataset.protocol == "self_retrieval"
    again = load("tfds(name='cars')", data_dir=str(folder))
    assert again.train.images.tolist() == dataset.train.images.tolist()
    assert again.train.labels.tolist() == dataset.train.labels.tolist()


def test_images_stay_encoded_and_keep_their_labels(prepare):
    folder = prepare("pairs", {"train": [0, 1, 2, 3]})
    dataset = load("tfds(name='pairs')", data_dir=str(folder))
    originals = {pixels.tobytes(): label for label, pixels in enumerate(pictures(4))}
    found = [pair for split in (dataset.train, dataset.test) for pair in zip(split.images, split.labels, strict=True)]
    assert len(found) == 4
    for contents, label in found:
        assert originals[decoded(contents).tobytes()] == label


def test_splits_of_different_classes_stay(prepare):
    folder = prepare("products", {"train": [4, 5, 4, 6, 6], "test": [1, 2]}, label="class_id")
    dataset = load("tfds(name='products')", data_dir=str(folder))
    assert sorted(dataset.train.labels) == [4, 4, 5, 6, 6] and sorted(dataset.test.labels) == [1, 2]


def test_arrays_are_encoded(prepare):
    from tensorflow_datasets import features

    folder = prepare("arrays", {"train": [0, 1]}, image=features.Tensor(shape=(12, 10, 3), dtype=np.uint8))
    dataset = load("tfds(name='arrays')", data_dir=str(folder))
    np.testing.assert_array_equal(decoded(dataset.train.images[0]), pictures(2)[dataset.train.labels[0]])


def test_arrays_of_another_kind_are_told(prepare):
    from tensorflow_datasets import features

    image = features.Tensor(shape=(12, 10, 3), dtype=np.float32)
    folder = prepare("floats", {"train": [0, 1]}, image=image, dtype="float32")
    with pytest.raises(ValueError, match=r"uint8 arrays \[H, W, 3\] or \[H, W, 1\]. Received: float32 \(12, 10, 3\)"):
        tfds("floats", str(folder))


def test_the_newest_version_is_read_unless_one_is_named(prepare):
    folder = prepare("birds", {"train": [0, 1]}, version="2.0.0")
    prepare("birds", {"train": [0, 1, 2, 3]}, version="10.0.0", folder=folder)
    assert len(tfds("birds", str(folder)).train) == 2
    assert len(tfds("birds:2.0.0", str(folder)).train) == 1


def test_images_without_a_label_are_left_out_and_counted(prepare, caplog):
    caplog.set_level("INFO", "pipelines")
    folder = prepare("hidden", {"train": [0, 1, 2, 3], "test": [-1, -1, -1]})
    dataset = tfds("hidden", str(folder))
    assert sorted([*dataset.train.labels, *dataset.test.labels]) == [0, 1, 2, 3]
    assert "3 images of test without a label" in caplog.text


def test_features_by_other_names(prepare):
    folder = prepare("named", {"train": [0, 1]}, label="species")
    with pytest.raises(ValueError, match="tfds.'named'. has no feature 'label'. Expected one of image, other, species"):
        tfds("named", str(folder))
    assert len(load("tfds(name='named', label='species', image='other')", data_dir=str(folder)).train) == 1


def test_what_is_not_prepared_is_not_downloaded(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="has not prepared 'cars196' in .*tensorflow_datasets build cars196"
    ) as error:
        tfds("cars196", str(tmp_path))
    assert f"Expected {tmp_path}/cars196/<version>/dataset_info.json" in str(error.value)
    assert "python -m pipelines.check" in str(error.value) and not list(tmp_path.iterdir())


def test_the_package_is_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r"^The dataset tfds needs .*: pip install 'tfdml\[tfds\]'\.$"):
        tfds("birds", str(tmp_path))
