"""Checks a dataset on disk: `python -m pipelines.check --dataset=cub200 --data_dir=data`; status 1 if any are bad."""

import os
import sys

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.progress_bar import ProgressBar

tfdml_flags.define_debug()
flags.DEFINE_string("dataset", "", "Dataset spec, as in training.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, as in training.")
flags.DEFINE_string(
    "out",
    "",
    "Where to write the list of bad images, if there are any; empty: bad_images.jsonl in --data_dir, or in "
    "the working directory if that is empty.",
)
flags.DEFINE_integer(
    "min_side",
    1,
    "Images with a shorter side than this count as bad, pixels. Training and tfdml.index read images of any size.",
    lower_bound=1,
)
flags.DEFINE_integer("threads", 8, "Images that are decoded at once.", lower_bound=1)
flags.DEFINE_bool("near_duplicates", False, "Also find test images that are nearly training images.")
flags.DEFINE_float("similarity", 0.99, "Smallest similarity of near-duplicates.", -1.0, 1.0)
flags.DEFINE_list(
    "embeddings",
    [],
    "Embeddings of training and of test images by which near-duplicates are found, two .npy files; empty: the images.",
)
flags.DEFINE_list("import_modules", [], "Your own modules to import first, such as one that registers a dataset.")

# Pixels of the shorter side of an image that shows something. Smaller ones are often placeholders of web pages.
SMALL = 8
# Pairs of near-duplicates that are printed.
PRINTED = 20


def main():
    from pipelines.dataset import list_path, write_list
    from pipelines.reading import near_duplicates
    from pipelines.stored import refuse_vectors
    from tfdml import registry

    settings = flags.FLAGS
    if not settings.dataset:
        if settings.data_dir and not os.path.isdir(settings.data_dir):
            raise FileNotFoundError(
                f"--data_dir={settings.data_dir} is not a folder. Expected the folder of the images."
            )
        raise ValueError(
            "--dataset is missing. Use --dataset='folder(test_classes=0.3)' for a folder with a folder for each class, "
            "--dataset=photos for images without classes, or a name such as --dataset=cub200."
        )
    # An unwritable path is an error now, and not after all images are decoded.
    out = list_path(settings.out, settings.data_dir)
    registry.import_modules(settings.import_modules)
    dataset = registry.create("dataset", settings.dataset, data_dir=settings.data_dir)
    refuse_vectors(dataset, "A check")
    if settings.near_duplicates:
        near_duplicates.check_folder(settings.data_dir)
        embeddings = near_duplicates.read_embeddings(settings.embeddings, dataset.splits())
    elif settings.embeddings:
        raise ValueError("--embeddings are for --near_duplicates; give both, or none.")
    bad, fine = check(dataset.splits(), settings)
    if settings.near_duplicates:
        found = near_duplicates.find(dataset.splits(), fine, embeddings, settings.similarity, settings.data_dir)
        path = near_duplicates.write_near_duplicates(settings.data_dir, settings.dataset, found)
        print(near_duplicates.in_words(found))
        for test, train, similarity in sorted(found["found"], key=lambda row: -row[2])[:PRINTED]:
            print(f"  {similarity:.4f}  {test}  {train}")
        if found["found"]:
            print(f"Evaluate without them: --ignore_images={path}")
    if not bad:
        print("All images can be read.")
        if out.exists():
            print(f"{out} is of an earlier check; --ignore_images with it leaves out images that can be read now.")
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    write_list(out, bad)
    print(f"{len(bad):,} bad images, listed in {out}; the first is {bad[0][0]!r}: {bad[0][1]}.")
    print(f"Train without them: --ignore_images={out}")
    sys.exit(1)


def check(splits, settings):
    """Prints what is in the splits; returns the bad images, `[(name, reason), ...]`, and other rows by split."""
    from pipelines.dataset import names_in_list
    from pipelines.reading.unreadable import classes_without_image, copies, verify

    bar = ProgressBar(sum(map(len, splits.values())), "image")
    verdicts, names = {}, {}
    for part, split in splits.items():
        names[part] = names_in_list(split, part, settings.data_dir)
        verdicts[part] = verify(split, min_side=settings.min_side, threads=settings.threads, on_rows=bar.add)
    for part, split in splits.items():
        print(f"{part}: {len(split):,} images of {split.num_classes:,} classes")
        lost = classes_without_image(split, verdicts[part])
        if lost:
            print(f"{part}: {len(lost):,} classes have no image that can be used: {', '.join(lost[:5])}")
        sides = zip(names[part], verdicts[part], strict=True)
        if small := [name for name, verdict in sides if verdict.side is not None and verdict.side < SMALL]:
            count = "1 image has" if len(small) == 1 else f"{len(small):,} images have"
            print(
                f"{part}: {count} less than {SMALL} pixels on a side, first {small[0]!r}. Such images are read; "
                f"--min_side={SMALL} lists them as bad."
            )
    duplicates = copies(verdicts.get("train", []), verdicts["test"])
    if duplicates:
        one, other = names["train"][duplicates[0][0]], names["test"][duplicates[0][1]]
        print(f"{len(duplicates):,} test images are training images, byte for byte; the first is {other!r}, as {one!r}")
    bad = [
        (name, verdict.reason)
        for part in splits
        for name, verdict in zip(names[part], verdicts[part], strict=True)
        if verdict.reason
    ]
    fine = {part: [row for row, verdict in enumerate(each) if not verdict.reason] for part, each in verdicts.items()}
    return bad, fine


if __name__ == "__main__":
    command.run(main, reads_images=True)
