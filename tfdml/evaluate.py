"""Evaluates a run, a model's file, or embeddings of any software. Prints one line of JSON, last.

python -m tfdml.evaluate --run_dir=runs/quickstart
python -m tfdml.evaluate --model=model.keras --dataset=toycars
python -m tfdml.evaluate --embeddings=embeddings.npy --labels=labels.npy --metrics=recall_at_1,map_at_r,nmi
python -m tfdml.evaluate --run_dir=runs/quickstart --pairs=pairs.txt --data_dir=lfw
"""

import json

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
# Flags that say how a split is measured.
OF_SPLITS = ("dataset", "protocol", "index", "labels", "per_class", "per_query", "bootstrap")


def main():
    values = flags.FLAGS
    named = [name for name in ("run_dir", "model", "embeddings") if values[name].value]
    if len(named) != 1:
        expected = "one of --run_dir, the folder of a run, --model, and --embeddings"
        raise ValueError(f"Expected {expected}; received {len(named)}.")
    if named[0] != "embeddings":
        command.refuse_unused(["labels"], f"--{named[0]} reads the labels of a dataset")
    if named[0] != "run_dir":
        command.refuse_unused(["which"], f"--{named[0]} names what is measured")
    command.check_file("per_query")
    if values.pairs:
        command.refuse_unused(OF_SPLITS, "--pairs verifies pairs")
        print(json.dumps({named[0]: values[named[0]].value, "pairs": values.pairs, **_verified()}))
        return
    labeled = _embeddings(named[0])
    scores = labeled.scores()
    index = {} if scores.index is None else {"index": scores.index.spec}
    summary = {**labeled.facts, **index, **scores.summary()}
    try:
        if values.bootstrap != "none":
            summary["intervals"] = labeled.intervals(scores, values.bootstrap == "classes")
        if values.per_class:
            summary["per_class"] = labeled.per_class(scores)
        if values.per_query:
            scores.write_per_query(values.per_query)
    finally:
        # Also where there is an error in what was asked beside them: they took all of the time.
        print(json.dumps(summary))


def _embeddings(named):
    values = flags.FLAGS
    if named != "embeddings" or values.import_modules:
        command.import_package()
    # Here, because it may import NumPy, which help does without.
    from tfdml.run.experiment import labeled_embeddings

    if named == "run_dir":
        changes = command.given("dataset", "data_dir", "protocol", "metrics", "import_modules")
        return labeled_embeddings.embeddings_of_run(values.run_dir, values.which, values.index, changes)
    options = {name: values[name].value for name in ("protocol", "metrics", "index")}
    options["modules"] = values.import_modules
    if named == "embeddings":
        for name in ("dataset", "data_dir"):
            if values[name].value:
                raise ValueError(f"--{name} is for runs and models; --embeddings needs none.")
        return labeled_embeddings.embeddings_of_files(values.embeddings, values.labels, **options)
    if not values.dataset:
        raise ValueError("--model needs --dataset, the spec of the dataset to evaluate on.")
    from tfdml.serving.embedders import embedder_of

    return labeled_embeddings.embeddings_of_model(embedder_of, values.model, values.dataset, values.data_dir, **options)


def _verified():
    values = flags.FLAGS
    if values.import_modules:
        command.import_package()
    from tfdml.run.experiment.labeled_embeddings import verified_pairs

    options = {"folder": values.data_dir, "make_embedder": _embedder, "modules": values.import_modules}
    return verified_pairs(values.pairs, values.metrics, embeddings=values.embeddings, **options)


def _embedder():
    command.import_package()
    from tfdml.run.loading import load
    from tfdml.serving.embedders import embedder_of

    values = flags.FLAGS
    return load(values.run_dir, values.which) if values.run_dir else embedder_of(values.model)


if __name__ == "__main__":
    # Embeddings of files are measured without TensorFlow, whose import takes about as long.
    command.run(main, imports=False)
