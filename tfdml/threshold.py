"""Fits the similarity from which two images count as the same class. Prints one line of JSON, last.

python -m tfdml.threshold --run_dir=runs/quickstart --far=1e-3
python -m tfdml.threshold --embeddings=validation.npz --precision=0.95
python -m tfdml.threshold --run_dir=runs/quickstart --far=1e-3 --into=photo_index
python -m tfdml.threshold --embeddings=embedded --far=1e-3 --into=photo_index
"""

import json
import os

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run, which gets threshold.json.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_float("far", 0.0, "The highest rate at which pairs of different classes are accepted, such as 0.001.")
flags.DEFINE_float("precision", 0.0, "Instead: the lowest share of accepted pairs that are of the same class.")
flags.DEFINE_enum("split", "validation", ["validation", "test"], "Which classes of a run to fit on.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved; empty: the run's own.")
flags.DEFINE_string("embeddings", "", "Instead of a run: .npy, .npz or .parquet file, or folder of tfdml.embed.")
flags.DEFINE_string(
    "into",
    "",
    "Exported model or index that gets the threshold. Its model must be the run's, or the one that computed the "
    "--embeddings, a folder of tfdml.embed.",
)
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy: .npy file with the labels.")
flags.DEFINE_string("protocol", "", "With --embeddings: protocol spec; empty: self_retrieval, or query_gallery.")
tfdml_flags.define_import_modules()
flags.DEFINE_integer("samples", 2000, "Number of bootstrap resamples.", lower_bound=100)
flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)


def main():
    values = flags.FLAGS
    if bool(values.run_dir) == bool(values.embeddings):
        received = "both" if values.run_dir else "neither"
        raise ValueError(f"Expected --run_dir, the folder of a run, or --embeddings, one alone; received {received}.")
    rates = [name for name in ("far", "precision") if values[name].present]
    if len(rates) != 1 or not 0 < values[rates[0]].value < 1:
        raise ValueError("Expected one of --far and --precision, between 0 and 1: --far=0.001, or --precision=0.95.")
    if values.run_dir:
        command.refuse_unused(["labels", "protocol"], "--run_dir reads those of the run")
    else:
        command.refuse_unused(["which", "split", "data_dir"], "--embeddings are what is fitted on")
    if values.into and values.embeddings and not os.path.isdir(values.embeddings):
        raise ValueError(
            f"--into needs a folder of tfdml.embed, which says its model; --embeddings={values.embeddings}."
        )
    if values.run_dir or values.import_modules or values.into:
        command.import_package()
    # Here, because they import NumPy, which help does without.
    from tfdml.run.experiment.labeled_embeddings import embeddings_of_files, embeddings_of_split
    from tfdml.run.experiment.threshold import fit, write_threshold

    if values.run_dir:
        changes = command.given("data_dir", "import_modules")
        labeled = embeddings_of_split(values.run_dir, values.which, values.split, changes)
    else:
        labeled = embeddings_of_files(values.embeddings, values.labels, values.protocol, modules=values.import_modules)
    threshold = fit(labeled, {rates[0]: values[rates[0]].value}, values.samples, values.seed)
    print(in_words(threshold))
    if values.run_dir:
        write_threshold(values.run_dir, threshold)
    print(json.dumps(threshold.fitted))
    if values.into:
        from tfdml.serving.index.threshold import put_threshold

        put_threshold(values.into, threshold, values.embeddings)


def in_words(threshold):
    """Returns what a `Threshold` means, in sentences."""
    from tfdml.run.experiment.threshold import for_people

    fit = threshold.fitted
    measure = "distance of at most" if fit["distance"] == "euclidean" else "similarity of at least"
    limit, *ends = (for_people(each, fit["distance"]) for each in (threshold.value, *fit["interval"]))
    accepted, pairs = fit["accepted"], fit["pairs"]
    on_test = fit.get("split") == "test"
    return (
        f"Accept pairs with a {measure} {limit:.4f}; over {fit['classes']} classes, the 95% interval is "
        f"{min(ends):.4f} to {max(ends):.4f}. Of {pairs['same']:,} pairs of the same class it accepts "
        f"{accepted['same']:,} ({fit['true_accept_rate']:.1%}), of {pairs['different']:,} pairs of different classes "
        f"{accepted['different']:,} ({fit['false_accept_rate']:.2g})."
        + (" It is fitted on the test classes, so its rates on them are optimistic." if on_test else "")
    )


if __name__ == "__main__":
    # Embeddings of files need no TensorFlow, whose import takes seconds.
    command.run(main, imports=False)
