"""Datasets and images."""

import shutil

from tests.fuzz import damage
from tests.fuzz.hostile_files import change_image
from tests.fuzz.target import JSON, LINES, TABLE, ZIP, Target
from tests.pipelines.tiny_datasets import WRITERS, read, write_cub
from tests.serving_fixtures import picture

PUBLISHED = ("cub200", "cars196", "sop", "inshop", "vehicleid", "market1501")


def _make_datasets(folder):
    for part in ("train/a", "train/b", "test/c", "test/d"):
        (folder / "photos" / part).mkdir(parents=True)
        for number, kind in enumerate(("PNG", "JPEG")):
            (folder / "photos" / part / f"{number}.{kind.lower()}").write_bytes(picture(number, kind=kind))
    (folder / "photos" / "classes.csv").write_text("class,genus\na,x\nb,x\nc,y\nd,y\n")
    files = sorted(file.relative_to(folder / "photos") for file in (folder / "photos").rglob("*.*") if file.parts[-3:])
    rows = [f"{file},{file.parts[1]},{file.parts[0]},{number}\n" for number, file in enumerate(files) if file.parts[1:]]
    (folder / "photos" / "photos.csv").write_text("path,label,split,camera\n" + "".join(rows))


def _read_datasets(folder):
    from pipelines.datasets import load

    found = []
    for spec in ("folder(class_groups='genus')", "csv(path='photos.csv')"):
        found.append(_summary(load(spec, data_dir=str(folder / "photos"))))
    return found


def _make_packed(folder):
    from pipelines import packing
    from pipelines.datasets import load

    _make_datasets(folder)
    packing.pack(load("folder", data_dir=str(folder / "photos")), folder / "packed", images=3)
    shutil.rmtree(folder / "photos")


def _read_packed(folder):
    from pipelines.datasets import load

    dataset = load("packed", data_dir=str(folder / "packed"))
    splits = dataset.splits().values()
    return [(split.labels.tolist(), split.class_names, split.images.tolist()) for split in splits]


def _make_images(folder):
    from PIL import Image

    for kind in ("PNG", "JPEG", "WEBP"):
        (folder / f"image.{kind.lower()}").write_bytes(picture(0, 64, 64, kind))
    Image.open(folder / "image.png").save(folder / "progressive.jpeg", progressive=True)
    # Of which each scan takes a while.
    Image.new("RGB", (3000, 3000), "red").save(folder / "large.jpeg", progressive=True)


def _read_images(folder):
    import tensorflow as tf

    from pipelines.images.decoding import decode

    try:
        return [int(tf.reduce_sum(tf.cast(decode(file.read_bytes()), tf.int64))) for file in sorted(folder.iterdir())]
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _make_published(folder):
    for name in PUBLISHED:
        WRITERS[name](folder / name)


def _read_published(folder):
    return [_summary(read(name, folder / name)) for name in PUBLISHED]


def _summary(dataset):
    return [(split.labels.tolist(), split.class_names) for split in dataset.splits().values()]


def _make_archives(folder):
    write_cub(folder / "made")
    for kind in ("zip", "gztar"):
        shutil.make_archive(str(folder / kind / "CUB_200_2011"), kind, folder / "made")
    shutil.rmtree(folder / "made")


def _read_archives(folder):
    return [_summary(read("cub200", folder / kind)) for kind in ("zip", "gztar")]


TARGETS = {
    "datasets": Target(
        _make_datasets, _read_datasets, {"*.csv": LINES, "*.png": (change_image,), "*.jpeg": (change_image,)}
    ),
    "published": Target(_make_published, _read_published, {"*.txt": LINES, "*.mat": damage.ANY}),
    "archives": Target(_make_archives, _read_archives, {"*.zip": ZIP, "*.gz": damage.ANY}, ("*.zip", "*.gz")),
    "packed": Target(_make_packed, _read_packed, {"*.json": JSON, "*.parquet": TABLE, "*.tar": damage.ANY}, ("*.tar",)),
    "images": Target(_make_images, _read_images, {"*": (change_image, change_image, *damage.ANY)}, named=False),
}
