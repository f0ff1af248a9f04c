"""Checks the images of a dataset on disk; exits with status 1 if any image is bad.

For example, `python -m pipelines.check --dataset=cub200 --data_dir=data` lists the images that cannot be read.
"""

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
    "File for the list of bad images, which is written if there are any. If empty, the file is bad_images.jsonl in "
    "--data_dir, or in the working directory if that is empty too.",
)
flags.DEFINE_integer(
    "min_side",
    1,
    "Minimum side of an image in pixels. Images with a shorter side are listed as bad. Training and tfdml.index read "
    "images of any size.",
    lower_bound=1,
)
flags.DEFINE_integer("threads", 8, "Number of images to decode in parallel.", lower_bound=1)
flags.DEFINE_bool("near_duplicates", False, "Also find test images that are nearly identical to training images.")
flags.DEFINE_float("similarity", 0.99, "Minimum cosine similarity of near-duplicates, -1 to 1.", -1.0, 1.0)
flags.DEFINE_list(
    "embeddings",
    [],
    "Two .npy files with embeddings of the training and of the test images, for --near_duplicates. If empty, small "
    "gray versions of the images are compared.",
)
flags.DEFINE_list("import_modules", [], "Your own modules to import first, such as one that registers a dataset.")

# Images with a shorter side than this many pixels are often placeholders from web pages.
SMALL = 8
# Number of near-duplicates to print.
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
                f"--data_dir={settings.data_dir} is not a folder. Expected the folder with the images."
            )
        raise ValueError(
            "--dataset is missing. Use --dataset='folder(test_classes=0.3)' for a folder with one subfolder per class, "
            "--dataset=photos for images without classes, or the name of a published dataset, such as "
            "--dataset=cub200."
        )
    # This fails now if the path is not writable, and not after all images have been decoded.
    out = list_path(settings.out, settings.data_dir)
    registry.import_modules(settings.import_modules)
    dataset = registry.create("dataset", settings.dataset, data_dir=settings.data_dir)
    refuse_vectors(dataset, "pipelines.check")
    if settings.near_duplicates:
        near_duplicates.check_folder(settings.data_dir)
        embeddings = near_duplicates.read_embeddings(settings.embeddings, dataset.splits())
    elif settings.embeddings:
        raise ValueError("--embeddings has no effect without --near_duplicates. Set both flags or neither.")
    bad, fine = check(dataset.splits(), settings)
    if settings.near_duplicates:
        found = near_duplicates.find(dataset.splits(), fine, embeddings, settings.similarity, settings.data_dir)
        path = near_duplicates.write_near_duplicates(settings.data_dir, settings.dataset, found)
        print(near_duplicates.in_words(found))
        for test, train, similarity in sorted(found["found"], key=lambda row: -row[2])[:PRINTED]:
            print(f"  {similarity:.4f}  {test}  {train}")
        if found["found"]:
            print(f"To evaluate without them, pass --ignore_images={path}")
    if not bad:
        print("All images can be read.")
        if out.exists():
            print(
                f"{out} is from an earlier check. Remove it, because --ignore_images would still skip its images, "
                "which can be read now."
            )
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    write_list(out, bad)
    print(f"Found {len(bad):,} bad images and listed them in {out}. The first is {bad[0][0]!r}: {bad[0][1]}.")
    print(f"To train without them, pass --ignore_images={out}")
    sys.exit(1)


def check(splits, settings):
    """Prints a summary of the splits; returns the bad images `[(name, reason), ...]` and the good rows by split."""
    from pipelines.dataset import names_in_list
    from pipelines.reading.unreadable import classes_without_image, copies, verify

    bar = ProgressBar(sum(map(len, splits.values())), "image")
    verdicts, names = {}, {}
    for part, split in splits.items():
        names[part] = names_in_list(split, part, settings.data_dir)
        verdicts[part] = verify(split, min_side=settings.min_side, threads=settings.threads, on_rows=bar.add)
    for part, split in splits.items():
        print(f"{part}: {len(split):,} images in {split.num_classes:,} classes")
        lost = classes_without_image(split, verdicts[part])
        if lost:
            print(f"{part}: {len(lost):,} classes have no readable image: {', '.join(lost[:5])}")
        sides = zip(names[part], verdicts[part], strict=True)
        if small := [name for name, verdict in sides if verdict.side is not None and verdict.side < SMALL]:
            count = "1 image has" if len(small) == 1 else f"{len(small):,} images have"
            print(
                f"{part}: {count} a side of less than {SMALL} pixels, for example {small[0]!r}. tfdml reads such "
                f"images. To list them as bad, pass --min_side={SMALL}."
            )
    duplicates = copies(verdicts.get("train", []), verdicts["test"])
    if duplicates:
        one, other = names["train"][duplicates[0][0]], names["test"][duplicates[0][1]]
        print(
            f"{len(duplicates):,} test images are byte-for-byte copies of training images. The first is {other!r}, a "
            f"copy of {one!r}."
        )
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
