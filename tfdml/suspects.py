"""Lists images that are nearer to another class than to their own, whose label may be wrong; one line of JSON, last.

python -m tfdml.suspects --run_dirs=runs/fold_0,runs/fold_1 --split=validation --out=suspects
python -m tfdml.suspects --embeddings=one_model.npz,another_model.npz --out=suspects
"""

import json

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list("run_dirs", [], "Folders of runs on one dataset. Each model judges, and most of them decide.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_enum(
    "split", "train", ["train", "validation", "test"], "Images to judge; validation: the classes that a run held out."
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved, or of the images of --embeddings.")
flags.DEFINE_list("embeddings", [], "Instead of runs: .npy, .npz or .parquet files, or folders of tfdml.embed.")
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy: .npy file with the labels.")
flags.DEFINE_enum("distance", "cosine", ["cosine", "euclidean"], "How --embeddings are compared.")
flags.DEFINE_integer("nearest", 5, "Images of a class whose mean similarity says how near it is.", lower_bound=1)
flags.DEFINE_float("margin", 0.0, "Least margin, in standard deviations of those of all images.", lower_bound=0)
flags.DEFINE_float(
    "share", 0.05, "Largest part of the images that is listed, the most doubtful.", lower_bound=0, upper_bound=1
)
flags.DEFINE_string("out", "suspects", "Folder that gets suspects.jsonl, which --ignore_images reads, and index.html.")
tfdml_flags.define_import_modules()
# Suspects that are printed.
PRINTED = 20


def main():
    values = flags.FLAGS
    if bool(values.run_dirs) == bool(values.embeddings):
        received = "both" if values.run_dirs else "neither"
        raise ValueError(f"Expected --run_dirs, folders of runs, or --embeddings, one alone; received {received}.")
    if values.run_dirs:
        command.refuse_unused(["labels", "distance"], "--run_dirs have those of the runs")
    else:
        command.refuse_unused(["which", "import_modules"], "--embeddings are what is judged")
        if values.split == "validation":
            raise ValueError("--split=validation is of runs; --embeddings are judged as they are.")
    command.check_folder("out")
    # Here, after TensorFlow.
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
    """Prints the most doubtful images in a table, and how many there are."""
    from tfdml.reporting.suspects_report import HEAD, rows_of

    if count := len(suspects.rows):
        print(command.aligned([HEAD, *rows_of(images, suspects)[:PRINTED]], left=range(len(HEAD))))
    if count > PRINTED:
        print(f"and {count - PRINTED:,} more")
    judged = sum(len(judge.rows) for judge in images.judges)
    alone = f" {suspects.unjudged:,} are alone in their class, and are not judged." if suspects.unjudged else ""
    left = f" Listed are the {count:,} most doubtful." if suspects.doubted > count else ""
    print(
        f"{suspects.doubted:,} images are nearer to another class than to their own, by {judged:,} judgements of "
        f"{len(images.judges):,} models on {len(images.labels):,} images.{alone}{left}"
    )


if __name__ == "__main__":
    command.run(main)
