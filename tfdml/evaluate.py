"""Evaluates a run, a model's file, or embeddings of any software. Prints one line of JSON, last.

python -m tfdml.evaluate --run_dir=runs/quickstart
python -m tfdml.evaluate --model=model.keras --dataset=toycars
python -m tfdml.evaluate --embeddings=embeddings.npy --labels=labels.npy --metrics=recall_at_1,map_at_r,nmi
"""

import json
from pathlib import Path
from typing import NamedTuple

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_string("dataset", "", "Dataset spec to evaluate on; empty: the run's own.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset; empty: the run's own, for a dataset of its name.")
flags.DEFINE_string("protocol", "", "Protocol spec; empty: the run's own, or the dataset's.")
flags.DEFINE_list("metrics", [], "Metrics, such as recall_at_1,map_at_r,nmi; empty: the run's own, or the protocol's.")
flags.DEFINE_string(
    "index",
    "",
    "How the gallery is searched: exact; for millions of images approximately by ivf(...) or hnsw(...). Empty: as the "
    "protocol says.",
)
flags.DEFINE_string("model", "", "Instead of a run: .keras file or SavedModel, to evaluate on --dataset.")
flags.DEFINE_string(
    "embeddings", "", "Instead of a run: .npy, .npz or .parquet file with embeddings, or folder of tfdml.embed."
)
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy: .npy file with the labels.")
flags.DEFINE_list("import_modules", [], "Your own modules to import; those of a run are only if they are named here.")
flags.DEFINE_bool("per_class", False, "Also print the means over the queries of each class.")
flags.DEFINE_string("per_query", "", "CSV file to write the values of each query to; empty: none.")
flags.DEFINE_enum(
    "bootstrap", "none", ["none", "queries", "classes"], "What to draw for 95% bootstrap intervals; none: no intervals."
)


class Source(NamedTuple):
    """Embeddings to measure, and how.

    Args:
        about: name to value, to print first.
        protocol: `Protocol`.
        embeddings: `[N, d]` array.
        rows: what the protocol reads of the embedded images: a `Split`, or `EmbeddingFiles`.
    """

    about: dict
    protocol: object
    embeddings: object
    rows: object


def main():
    from tfdml import registry

    given = flags.FLAGS
    sources = {"run_dir": _of_run, "model": _of_model, "embeddings": _of_files}
    named = [name for name in sources if given[name].value]
    if len(named) != 1:
        raise ValueError(
            f"Expected one of --run_dir, the folder of a run, --model, and --embeddings; received {len(named)}."
        )
    if named[0] != "embeddings":
        command.refuse_unused(["labels"], f"--{named[0]} reads the labels of a dataset")
    if named[0] != "run_dir":
        command.refuse_unused(["which"], f"--{named[0]} names what is measured")
        registry.import_modules(given.import_modules)
    command.check_file("per_query")
    source = sources[named[0]](given)
    scores, rows = source.protocol.scores(source.embeddings, source.rows), source.rows
    index = {} if scores.index is None else {"index": scores.index.spec}
    found = {**source.about, **index, **scores.summary()}
    try:
        found |= _intervals(given.bootstrap, scores, rows.labels)
        if given.per_class:
            found["per_class"] = _named(scores.per_class(rows.labels), rows.class_names or {})
        if given.per_query:
            scores.write_per_query(given.per_query)
    finally:
        # Also where there is an error in what was asked beside them: they took all of the time.
        print(json.dumps(found))


def _of_run(given):
    """Returns the `Source` of a run's test split."""
    from tfdml import registry
    from tfdml.evaluation.protocols import protocol_of
    from tfdml.run.experiment import trained
    from tfdml.run.run_directory import RunDirectory

    changes = command.given("dataset", "data_dir", "protocol", "metrics", "import_modules")
    if "dataset" in changes:
        # These settings of the run are only for its own dataset, and its folder for datasets of that name.
        changes = {"protocol": "", "metrics": [], "ignore_images": "", **changes}
        own = RunDirectory(given.run_dir).settings().dataset
        if registry.parse(given.dataset)[0][0] != registry.parse(own)[0][0]:
            changes = {"data_dir": "", **changes}
    experiment, model = trained(given.run_dir, given.which, changes)
    split, settings = experiment.splits.test, experiment.settings
    protocol = protocol_of(experiment.protocol_spec, settings.metrics, given.index)
    about = {"run_dir": given.run_dir, "model": given.which, "dataset": settings.dataset, "split": "test"}
    about["protocol"] = experiment.protocol_spec
    return Source(about, protocol, experiment.embed(model, split), split)


def _of_model(given):
    """Returns the `Source` of a model's file and a dataset's test split."""
    from pipelines.datasets import load as load_dataset
    from tfdml.evaluation.protocols import protocol_of

    if not given.dataset:
        raise ValueError("--model needs --dataset, the spec of the dataset to evaluate on.")
    # Before a dataset is read: a wrong path is told at once.
    embedder = _embedder(given.model)
    dataset = load_dataset(given.dataset, data_dir=given.data_dir, test_only=True)
    spec = given.protocol or dataset.protocol
    protocol = protocol_of(spec, given.metrics, given.index)
    embeddings = embedder.embed_split(dataset.test)
    about = {"model": given.model, "dataset": given.dataset, "split": "test", "protocol": spec}
    return Source(about, protocol, embeddings, dataset.test)


def _embedder(model):
    from tfdml.loading import load

    if Path(model).is_file() or (Path(model) / "flags.txt").is_file():
        return load(model)
    from tfdml.serving.exported_model import ExportedModel

    try:
        return ExportedModel(model)
    except ValueError as error:
        raise ValueError(f"--model={error} A .keras file or the folder of a run needs no export.") from None


def _of_files(given):
    """Returns the `Source` of files that any software has written."""
    from tfdml.evaluation.embedding_files import EmbeddingFiles
    from tfdml.evaluation.protocols import protocol_of

    for name in ("dataset", "data_dir"):
        if given[name].value:
            raise ValueError(f"--{name} is for runs and models; --embeddings needs none.")
    files = EmbeddingFiles.read(given.embeddings, given.labels)
    spec = given.protocol or ("self_retrieval" if files.is_query is None else "query_gallery")
    about = {"embeddings": given.embeddings, "protocol": spec}
    return Source(about, protocol_of(spec, given.metrics, given.index), files.embeddings, files)


def _intervals(drawn, scores, labels):
    if drawn == "none":
        return {}
    from tfdml.evaluation.bootstrap import bootstrap_intervals

    clusters = labels[scores.queries] if drawn == "classes" and scores.per_query else None
    return {"intervals": bootstrap_intervals(scores.per_query, clusters)}


def _named(per_class, names):
    return {str(names.get(label, label)): values for label, values in per_class.items()}


if __name__ == "__main__":
    command.run(main)
