"""Embeddings to evaluate: of a run, of a model and a dataset, or of files."""

import json
from typing import NamedTuple

from pipelines.datasets import load
from tfdml import registry
from tfdml.evaluation.bootstrap import bootstrap_intervals
from tfdml.evaluation.embedding_files import EmbeddingFiles
from tfdml.evaluation.protocols import protocol_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained


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


def of_run(run_dir, which, index, changes):
    """Returns the `Source` of a run's test split.

    Args:
        run_dir: folder of the run.
        which: `best` or `final`.
        index: spec of the index that is searched; empty: as the protocol says.
        changes: settings to use instead of the run's, name to value.
    """
    if "dataset" in changes:
        # These settings of the run are only for its own dataset, and its folder for datasets of that name.
        changes = {"protocol": "", "metrics": [], "ignore_images": "", **changes}
        own = RunDirectory(run_dir).settings().data.dataset
        if registry.parse(changes["dataset"])[0][0] != registry.parse(own)[0][0]:
            changes = {"data_dir": "", **changes}
    experiment, model = trained(run_dir, which, changes)
    split, settings = experiment.splits.test, experiment.settings
    protocol = protocol_of(experiment.protocol_spec, settings.evaluation.metrics, index)
    about = {"run_dir": run_dir, "model": which, "dataset": settings.data.dataset, "split": "test"}
    about["protocol"] = experiment.protocol_spec
    return Source(about, protocol, experiment.embed(model, split), split)


def of_model(embedder_of, given):
    """Returns the `Source` of a dataset's test split, as a model embeds it.

    Args:
        embedder_of: function from the path of a model to its `ImageEmbedder` or `ExportedModel`.
        given: flags `model`, `import_modules`, `dataset`, `data_dir`, `protocol`, `metrics` and `index`.
    """
    registry.import_modules(given.import_modules)
    if not given.dataset:
        raise ValueError("--model needs --dataset, the spec of the dataset to evaluate on.")
    # Before a dataset is read: a wrong path is told at once.
    embedder = embedder_of(given.model)
    dataset = load(given.dataset, data_dir=given.data_dir, test_only=True)
    spec = given.protocol or dataset.protocol
    protocol = protocol_of(spec, given.metrics, given.index)
    embeddings = embedder.embed_split(dataset.test)
    about = {"model": given.model, "dataset": given.dataset, "split": "test", "protocol": spec}
    return Source(about, protocol, embeddings, dataset.test)


def of_files(given):
    """Returns the `Source` of files that any software has written.

    Args:
        given: flags `embeddings`, `labels`, `import_modules`, `protocol`, `metrics` and `index`.
    """
    registry.import_modules(given.import_modules)
    for name in ("dataset", "data_dir"):
        if given[name].value:
            raise ValueError(f"--{name} is for runs and models; --embeddings needs none.")
    files = EmbeddingFiles.read(given.embeddings, given.labels)
    spec = given.protocol or ("self_retrieval" if files.is_query is None else "query_gallery")
    about = {"embeddings": given.embeddings, "protocol": spec}
    return Source(about, protocol_of(spec, given.metrics, given.index), files.embeddings, files)


def print_scores(source, *, bootstrap, per_class, per_query):
    """Measures a `Source`, and prints one line of JSON.

    Args:
        source: what is measured.
        bootstrap: what is drawn for intervals, `queries` or `classes`; `none`: no intervals.
        per_class: whether the means over the queries of each class are printed, too.
        per_query: CSV file for the values of each query; empty: none.
    """
    scores, rows = source.protocol.scores(source.embeddings, source.rows), source.rows
    index = {} if scores.index is None else {"index": scores.index.spec}
    found = {**source.about, **index, **scores.summary()}
    try:
        if bootstrap != "none":
            clusters = rows.labels[scores.queries] if bootstrap == "classes" and scores.per_query else None
            found["intervals"] = bootstrap_intervals(scores.per_query, clusters)
        if per_class:
            names = rows.class_names or {}
            means = scores.per_class(rows.labels)
            found["per_class"] = {str(names.get(label, label)): values for label, values in means.items()}
        if per_query:
            scores.write_per_query(per_query)
    finally:
        # Also where there is an error in what was asked beside them: they took all of the time.
        print(json.dumps(found))
