"""Datasets that TensorFlow Datasets has prepared on disk."""

import io
import logging
import re
from pathlib import Path

import numpy as np

from pipelines.dataset import Dataset, Split
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Text

# Names of the feature that holds the class, in order of preference.
LABELS = ("label", "class_id")


@register("dataset", "tfds")
def tfds(name: Text, data_dir: FilePath | None = None, image: str = "image", label: str | None = None) -> Dataset:
    """A dataset that TensorFlow Datasets has prepared on your disk, divided by class; nothing is downloaded.

    Splits train and test with different classes stay as they are; otherwise the first half of the classes trains and
    the other half tests. Encoded images are loaded into memory.

    Args:
        name: as TensorFlow Datasets knows it: `cars196`, `caltech_birds2011:0.2.0`, `some/config`.
        data_dir: folder of its datasets. Default: `~/tensorflow_datasets`.
        image: the feature that holds the image.
        label: the feature that holds the class. Default: `label` or `class_id`.
    """
    try:
        # Slow to import, and only this dataset needs it.
        import tensorflow_datasets
    except ImportError as error:
        raise ImportError(f"The dataset tfds needs {error.name}: pip install 'tfdml[tfds]'.") from error
    folder = _prepared(Path(data_dir or "~/tensorflow_datasets").expanduser(), name)
    builder = tensorflow_datasets.builder_from_directory(folder)
    features = builder.info.features
    label = label or next((known for known in LABELS if known in features), LABELS[0])
    for feature in (image, label):
        if feature not in features:
            raise ValueError(f"tfds({name!r}) has no feature {feature!r}; it has {', '.join(sorted(features))}.")
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
            f"TensorFlow Datasets has prepared no {name!r} in {data_dir}: there is no {path}/<version>/"
            f"dataset_info.json. Prepare it once: python -m tensorflow_datasets build {name} --data_dir={data_dir}; "
            f"then check it: python -m pipelines.check --dataset=\"tfds(name='{name}')\" --data_dir={data_dir}"
        )
    if len({folder.parent for folder in folders}) > 1:
        configs = sorted({folder.parent.name for folder in folders})
        raise ValueError(
            f"tfds({name!r}) has several configurations: {', '.join(configs)}. Name one: {name}/{configs[0]}."
        )
    return max(folders, key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.name)])


def _read(tensorflow_datasets, builder, part, image, label):
    """Reads encoded images and labels of a split, in stored order."""
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
        logging.getLogger(__name__).info("%d images of %s have no label and are left out.", np.sum(labels < 0), part)
    return Split(images, labels).where(labels >= 0)


def _encode(pixels):
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(f"Expected images as uint8 [H, W, 3] or [H, W, 1], received {pixels.dtype} {pixels.shape}.")
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
