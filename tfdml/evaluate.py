"""Evaluates a run, a model's file, or embeddings of any software. Prints one line of JSON, last.

python -m tfdml.evaluate --run_dir=runs/quickstart
python -m tfdml.evaluate --model=model.keras --dataset=toycars
python -m tfdml.evaluate --embeddings=embeddings.npy --labels=labels.npy --metrics=recall_at_1,map_at_r,nmi
python -m tfdml.evaluate --run_dir=runs/quickstart --pairs=pairs.txt --data_dir=lfw
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("dataset", "", "Dataset spec to evaluate on; empty: the run's own.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset; empty: the run's own, for a dataset of its name.")
flags.DEFINE_string("protocol", "", "Protocol spec; empty: the run's own, or the dataset's.")
flags.DEFINE_list("metrics", [], "Metrics, such as recall_at_1,map_at_r,nmi; empty: the run's own, or the protocol's.")
flags.DEFINE_string("index", "", "How galleries are searched: exact, ivf(...), hnsw(...); empty: as the protocol says.")
flags.DEFINE_string("model", "", "Instead of a run: .keras file or SavedModel, to evaluate on --dataset.")
flags.DEFINE_string("embeddings", "", "Instead of a run: .npy, .npz or .parquet file, or folder of tfdml.embed.")
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy: .npy file with the labels.")
flags.DEFINE_string("pairs", "", "Pairs to verify instead, of images in --data_dir: a,b,same.csv, or LFW's pairs.txt.")
tfdml_flags.define_import_modules()
flags.DEFINE_bool("per_class", False, "Also print the means over the queries of each class.")
flags.DEFINE_string("per_query", "", "CSV file to write the values of each query to; empty: none.")
flags.DEFINE_enum(
    "bootstrap", "none", ["none", "queries", "classes"], "What to draw for 95% bootstrap intervals; none: no intervals."
)


def main():
    given = flags.FLAGS
    named = [name for name in ("run_dir", "model", "embeddings") if given[name].value]
    if len(named) != 1:
        raise ValueError(
            f"Expected one of --run_dir, the folder of a run, --model, and --embeddings; received {len(named)}."
        )
    if named[0] != "embeddings":
        command.refuse_unused(["labels"], f"--{named[0]} reads the labels of a dataset")
    if named[0] != "run_dir":
        command.refuse_unused(["which"], f"--{named[0]} names what is measured")
    command.check_file("per_query")
    if given.pairs:
        from tfdml.run.experiment.measured_pairs import print_pairs

        return print_pairs(given, named[0], _embedder)
    source = _source(given)
    # Here, because it may import NumPy, which help does without.
    from tfdml.run.experiment.measured_source import print_scores

    print_scores(source, bootstrap=given.bootstrap, per_class=given.per_class, per_query=given.per_query)


def _embedder():
    command.import_package()
    from tfdml.serving.measured_model import embedder

    return embedder(flags.FLAGS)


def _source(given):
    """Returns the `Source` that the flags name."""
    if given.embeddings:
        if given.import_modules:
            command.import_package()
        from tfdml.run.experiment.measured_source import of_files

        return of_files(given)
    command.import_package()
    from tfdml.serving.measured_model import source_of

    return source_of(given, command.given("dataset", "data_dir", "protocol", "metrics", "import_modules"))


if __name__ == "__main__":
    # Embeddings of files are measured without TensorFlow, whose import takes about as long.
    command.run(main, imports=False)
