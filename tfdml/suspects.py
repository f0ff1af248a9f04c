"""Lists images that may have a wrong label because they are closer to another class. The last line is JSON.

python -m tfdml.suspects --run_dirs=runs/fold_0,runs/fold_1 --split=validation --out=suspects
python -m tfdml.suspects --embeddings=one_model.npz,another_model.npz --out=suspects
"""

import json

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list(
    "run_dirs",
    [],
    "Directories of runs trained on the same dataset. Each model votes; an image is listed if the majority doubts its "
    "label.",
)
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_enum(
    "split",
    "train",
    ["train", "validation", "test"],
    "Images to check. validation are the classes that the runs held out.",
)
flags.DEFINE_string(
    "data_dir",
    "",
    "Folder of the dataset, or of the images of --embeddings. If not set, the folder that the runs used.",
)
flags.DEFINE_list("embeddings", [], "Instead of runs, .npy, .npz or .parquet files, or folders written by tfdml.embed.")
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy, the .npy file with the labels.")
flags.DEFINE_enum("distance", "cosine", ["cosine", "euclidean"], "Distance to compare --embeddings with.")
flags.DEFINE_integer(
    "nearest", 5, "How close an image is to a class is its mean similarity to this many nearest images.", lower_bound=1
)
flags.DEFINE_float(
    "margin",
    0.0,
    "Minimum margin, in standard deviations of the margins of all images. A larger margin lists fewer images.",
    lower_bound=0,
)
flags.DEFINE_float(
    "share",
    0.05,
    "Maximum fraction of the images to list. The most doubtful images are listed.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_string(
    "out",
    "suspects",
    "Folder for index.html, suspects.jsonl and labels.html. Pass the second to --ignore_images to train without these "
    "images, or correct their labels on the third.",
)
tfdml_flags.define_import_modules()
# Maximum number of suspects that are printed.
PRINTED = 20


def main():
    values = flags.FLAGS
    if bool(values.run_dirs) == bool(values.embeddings):
        received = "both" if values.run_dirs else "neither"
        raise ValueError(f"Set exactly one of --run_dirs and --embeddings. Received: {received}.")
    if values.run_dirs:
        command.refuse_unused(["labels", "distance"], "--run_dirs uses the labels and the distance of the runs")
    else:
        command.refuse_unused(["which", "import_modules"], "--embeddings are used without a model")
        if values.split == "validation":
            raise ValueError("--split=validation needs --run_dirs. Remove it to check all --embeddings.")
    command.check_folder("out")
    # Imported after TensorFlow.
    from tfdml.reporting.suspects_report import suspects_of, write_suspects
    from tfdml.run.experiment.judged_images import JudgedImages

    if values.run_dirs:
        changes = command.given("data_dir", "import_modules")
        images = JudgedImages.of_runs(values.run_dirs, values.split, values.which, changes)
    else:
        about = {"data_dir": values.data_dir, "part": values.split, "distance": values.distance}
        images = JudgedImages.of_files(values.embeddings, values.labels, **about)
    suspects = suspects_of(images, values.nearest, values.margin, values.share)
    files = write_suspects(images, suspects, values.out)
    _print_suspects(images, suspects)
    counts = {"images": len(images.labels), "doubted": suspects.doubted, "suspects": len(suspects.rows)}
    paths = {name: str(path) for name, path in files.items()}
    print(json.dumps({**counts, "unjudged": suspects.unjudged, **paths}))


def _print_suspects(images, suspects):
    """Prints a table of the most doubtful images, and their number."""
    from tfdml.reporting.suspects_report import HEAD, rows_of

    if count := len(suspects.rows):
        print(command.aligned([HEAD, *rows_of(images, suspects)[:PRINTED]], left=range(len(HEAD))))
    if count > PRINTED:
        print(f"... and {count - PRINTED:,} more")
    judges = len(images.judges)
    by = f" according to the majority of {judges:,} models" if judges > 1 else ""
    alone = (
        f" {suspects.unjudged:,} images are alone in their class and cannot be checked." if suspects.unjudged else ""
    )
    left = f" The list contains the {count:,} most doubtful of them." if suspects.doubted > count else ""
    total = len(images.labels)
    print(f"{suspects.doubted:,} of {total:,} images are closer to another class than to their own{by}.{left}{alone}")


if __name__ == "__main__":
    command.run(main)
