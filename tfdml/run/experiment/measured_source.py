"""`Source`: embeddings and how they are measured. Those of files need no TensorFlow."""

import json
from typing import NamedTuple

from tfdml import registry
from tfdml.evaluation.bootstrap import bootstrap_intervals
from tfdml.evaluation.metrics import PairMetric
from tfdml.evaluation.protocols import protocol_of
from tfdml.evaluation.verification.pair_intervals import metric_intervals
from tfdml.files.embedding_files import EmbeddingFiles


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


def of_files(given):
    """Returns the `Source` of files that any software has written.

    Args:
        given: flags `embeddings`, `labels`, `import_modules`, `protocol`, `metrics` and `index`.
    """
    for name in ("dataset", "data_dir"):
        if given[name].value:
            raise ValueError(f"--{name} is for runs and models; --embeddings needs none.")
    return source_of_files(given, given.metrics, given.index)


def source_of_files(given, metrics=(), index=""):
    """Returns the `Source` of files.

    Args:
        given: flags `embeddings`, `labels`, `import_modules` and `protocol`.
        metrics: specs of metrics; empty for the protocol's own.
        index: spec of an index; empty for the protocol's own.
    """
    registry.import_modules(given.import_modules)
    files = EmbeddingFiles.read(given.embeddings, given.labels)
    spec = given.protocol or ("self_retrieval" if files.is_query is None else "query_gallery")
    about = {"embeddings": given.embeddings, "protocol": spec}
    return Source(about, protocol_of(spec, metrics, index), files.embeddings, files)


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
            found["intervals"] = _intervals(source, scores, bootstrap == "classes")
        if per_class:
            names = rows.class_names or {}
            means = scores.per_class(rows.labels)
            found["per_class"] = {str(names.get(label, label)): values for label, values in means.items()}
        if per_query:
            scores.write_per_query(per_query)
    finally:
        # Also where there is an error in what was asked beside them: they took all of the time.
        print(json.dumps(found))


def _intervals(source, scores, of_classes):
    """Returns the bootstrap intervals of means over queries, and with classes drawn, of metrics of pairs."""
    intervals, clusters = {}, None
    metrics = [metric for metric in source.protocol.metrics if isinstance(metric, PairMetric)]
    if of_classes:
        clusters = source.rows.labels[scores.queries] if scores.per_query else None
        known = [metric for metric in metrics if scores.values[metric.name] is not None]
        # Of a mean over several searches there is no single set of pairs.
        if known and len(source.protocol.tasks(source.rows)) == 1:
            intervals = metric_intervals(source.protocol.pairs(source.embeddings, source.rows), known)
    if scores.per_query or not intervals:
        intervals = {**bootstrap_intervals(scores.per_query, clusters), **intervals}
    return intervals
