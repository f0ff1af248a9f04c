"""Evaluates a run, a model file or embeddings. Prints the scores; the last line is JSON with fractions from 0 to 1.

python -m tfdml.evaluate --run_dir=runs/quickstart
python -m tfdml.evaluate --model=model.keras --dataset=toycars
python -m tfdml.evaluate --embeddings=embeddings.npy --labels=labels.npy --metrics=recall_at_1,map_at_r,nmi
python -m tfdml.evaluate --run_dir=runs/quickstart --pairs=pairs.txt --data_dir=lfw
"""

import json

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Directory of the run to evaluate.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string(
    "dataset", "", "Spec of the dataset to evaluate on, such as toycars(seed=1). If not set, the dataset of the run."
)
flags.DEFINE_string(
    "data_dir", "", "Folder of the dataset. If not set, the folder that the run used, for a dataset of the same name."
)
flags.DEFINE_string(
    "protocol", "", "Evaluation protocol spec. If not set, the protocol of the run or, without a run, of the dataset."
)
flags.DEFINE_list(
    "metrics", [], "Metrics, such as recall_at_1,map_at_r,nmi. If not set, the metrics of the run or the protocol."
)
flags.DEFINE_string(
    "index",
    "",
    "How to search for neighbors: exact, or approximately with ivf(...) or hnsw(...). If not set, as the protocol "
    "specifies.",
)
flags.DEFINE_string("model", "", "Instead of a run, a .keras file or SavedModel to evaluate on --dataset.")
flags.DEFINE_string(
    "embeddings", "", "Instead of a run, a .npy, .npz or .parquet file, or a folder written by tfdml.embed."
)
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy, the .npy file with the labels.")
flags.DEFINE_string(
    "pairs",
    "",
    "File with pairs of images in --data_dir to verify: a CSV file with the columns a, b and same, or LFW's pairs.txt.",
)
tfdml_flags.define_import_modules()
flags.DEFINE_bool("per_class", False, "Also print the mean scores of the queries of each class.")
flags.DEFINE_string("per_query", "", "CSV file for the scores of each query. If not set, they are not written.")
flags.DEFINE_enum(
    "bootstrap",
    "none",
    ["none", "queries", "classes"],
    "What the bootstrap resamples for 95% confidence intervals. Prefer classes if there are at least a few dozen: "
    "queries of the same class are not independent. none computes no intervals.",
)
# Flags that specify how a split is measured.
OF_SPLITS = ("dataset", "protocol", "index", "labels", "per_class", "per_query", "bootstrap")


def main():
    values = flags.FLAGS
    named = [name for name in ("run_dir", "model", "embeddings") if values[name].value]
    if len(named) != 1:
        received = " and ".join(f"--{name}" for name in named) or "none of them"
        raise ValueError(f"Set exactly one of --run_dir, --model and --embeddings. Received: {received}.")
    if named[0] != "embeddings":
        command.refuse_unused(["labels"], f"--{named[0]} uses the labels of a dataset")
    if named[0] != "run_dir":
        command.refuse_unused(["which"], f"--{named[0]} evaluates a single model")
    command.check_file("per_query")
    if values.pairs:
        command.refuse_unused(OF_SPLITS, "--pairs verifies pairs")
        found = _verified()
        command.print_scores({name: found[name] for name in found if isinstance(found[name], float)})
        print(json.dumps({named[0]: values[named[0]].value, "pairs": values.pairs, **found}))
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
        # Printed even if one of the other requests fails, because the scores took most of the time.
        command.print_scores(scores.values, summary.get("intervals"))
        print(json.dumps(summary))


def _embeddings(named):
    values = flags.FLAGS
    if named != "embeddings" or values.import_modules:
        command.import_package()
    # Imported here, because NumPy would slow down --help.
    from tfdml.run.experiment import labeled_embeddings

    if named == "run_dir":
        changes = command.given("dataset", "data_dir", "protocol", "metrics", "import_modules")
        return labeled_embeddings.embeddings_of_run(values.run_dir, values.which, values.index, changes)
    options = {name: values[name].value for name in ("protocol", "metrics", "index")}
    options["modules"] = values.import_modules
    if named == "embeddings":
        for name in ("dataset", "data_dir"):
            if values[name].value:
                raise ValueError(
                    f"--{name} cannot be used with --embeddings, only with --run_dir or --model. Remove it."
                )
        return labeled_embeddings.embeddings_of_files(values.embeddings, values.labels, **options)
    if not values.dataset:
        raise ValueError("--model needs --dataset. Set it to the dataset to evaluate on, for example --dataset=folder.")
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
    # Stored embeddings are evaluated without TensorFlow, because importing it takes about as long as the evaluation.
    command.run(main, imports=False)
