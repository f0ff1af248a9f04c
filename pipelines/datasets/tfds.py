"""Datasets prepared on disk by TensorFlow Datasets."""

import io
import logging
import re
from pathlib import Path

import numpy as np

from pipelines.dataset import Dataset, Split
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Text

# Names of the feature with the class, in order of preference.
LABELS = ("label", "class_id")


@register("dataset", "tfds")
def tfds(name: Text, data_dir: FilePath | None = None, image: str = "image", label: str | None = None) -> Dataset:
    """Loads a dataset that TensorFlow Datasets has prepared on your disk, without downloading anything.

    If its splits `train` and `test` have different classes, they are used unchanged. Otherwise the first half of the
    classes is for training, and the other half for the test. Encoded images are loaded into memory.

    Args:
        name: Name in TensorFlow Datasets, for example `"cars196"`, `"caltech_birds2011:0.2.0"` or `"some/config"`.
        data_dir: Folder of its datasets, or `None`. If `None`, it is `~/tensorflow_datasets`. Defaults to `None`.
        image: Name of the feature with the image. Defaults to `"image"`.
        label: Name of the feature with the class, or `None`. If `None`, it is `label` or `class_id`. Defaults to
            `None`.
    """
    try:
        # TensorFlow Datasets is slow to import, and only this dataset needs it.
        import tensorflow_datasets
    except ImportError as error:
        raise ImportError(f"The dataset tfds needs {error.name}: pip install 'tfdml[tfds]'.") from error
    folder = _prepared(Path(data_dir or "~/tensorflow_datasets").expanduser(), name)
    builder = tensorflow_datasets.builder_from_directory(folder)
    features = builder.info.features
    label = label or next((known for known in LABELS if known in features), LABELS[0])
    for feature in (image, label):
        if feature not in features:
            raise ValueError(
                f"tfds({name!r}) has no feature {feature!r}. Expected one of {', '.join(sorted(features))}."
            )
    parts = {part: _read(tensorflow_datasets, builder, part, image, label) for part in sorted(builder.info.splits)}
    is_named = isinstance(features[label], tensorflow_datasets.features.ClassLabel)
    names = dict(enumerate(features[label].names)) if is_named else None
    return Dataset(f"tfds({name})", *_divide(parts, names))


def _prepared(data_dir, name):
    """Returns the folder of the newest version of a prepared dataset."""
    path = data_dir / name.replace(":", "/")
    folders = [file.parent for depth in ("", "*/", "*/*/") for file in path.glob(f"{depth}dataset_info.json")]
    if not folders:
        raise FileNotFoundError(
            f"TensorFlow Datasets has not prepared {name!r} in {data_dir}. Expected {path}/<version>/"
            f"dataset_info.json. Prepare it once with python -m tensorflow_datasets build {name} "
            f"--data_dir={data_dir}. Then check it with "
            f"python -m pipelines.check --dataset=\"tfds(name='{name}')\" --data_dir={data_dir}"
        )
    if len({folder.parent for folder in folders}) > 1:
        configs = sorted({folder.parent.name for folder in folders})
        raise ValueError(
            f"tfds({name!r}) has several configurations: {', '.join(configs)}. Choose one, for example "
            f"{name}/{configs[0]}."
        )
    return max(folders, key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.name)])


def _read(tensorflow_datasets, builder, part, image, label):
    """Reads the encoded images and the labels of a split, in stored order."""
    encoded = isinstance(builder.info.features[image], tensorflow_datasets.features.Image)
    decoders = {image: tensorflow_datasets.decode.SkipDecoding()} if encoded else {}
    examples = builder.as_dataset(
        split=part,
        shuffle_files=False,
        read_config=tensorflow_datasets.ReadConfig(interleave_cycle_length=1),
        decoders=tensorflow_datasets.decode.PartialDecoding({image: True, label: True}, decoders=decoders),
    )
    rows = [(example[image], int(example[label])) for example in examples.as_numpy_iterator()]
    images = np.empty(len(rows), object)
    images[:] = [contents if encoded else _encode(contents) for contents, _ in rows]
    labels = np.array([number for _, number in rows], np.int64)
    if np.any(labels < 0):
        logging.getLogger(__name__).info("%d images of %s without a label are skipped.", np.sum(labels < 0), part)
    return Split(images, labels).where(labels >= 0)


def _encode(pixels):
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(
            f"Expected images as uint8 arrays [H, W, 3] or [H, W, 1]. Received: {pixels.dtype} {pixels.shape}."
        )
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def _divide(parts, names):
    pair = [parts[part] for part in ("train", "test") if part in parts and len(parts[part])]
    if len(pair) == 2 and not np.intersect1d(*(split.labels for split in pair)).size:
        return [Split(split.images, split.labels, names) for split in pair]
    images, labels = (
        np.concatenate([getattr(part, column) for part in parts.values()]) for column in ("images", "labels")
    )
    return Split(images, labels, names).halves()
