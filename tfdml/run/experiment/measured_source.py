"""`Source`: embeddings and how they are measured. Those of files need no TensorFlow."""

from typing import NamedTuple

from tfdml import registry
from tfdml.evaluation.metrics import PairMetric
from tfdml.evaluation.protocols import protocol_of
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.evaluation.verification.thresholds import metric_intervals
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.run.experiment.measurable import measurable


class Source(NamedTuple):
    """Embeddings to measure, and how.

    Args:
        facts: name to value, what is measured in words.
        protocol: `Protocol`.
        embeddings: `[N, d]` array.
        rows: what the protocol reads of the embedded images: a `Split`, or `EmbeddingFiles`.
    """

    facts: dict
    protocol: object
    embeddings: object
    rows: object

    def scores(self):
        """Returns the `Scores` of all metrics of the protocol."""
        return self.protocol.scores(self.embeddings, self.rows)

    def per_class(self, scores):
        """Returns the means over the queries of each class, by its name."""
        names, means = self.rows.class_names or {}, scores.per_class(self.rows.labels)
        return {str(names.get(label, label)): values for label, values in means.items()}

    def intervals(self, scores, of_classes):
        """Returns the bootstrap intervals of means over queries, and with classes drawn, of metrics of pairs."""
        intervals, clusters = {}, None
        metrics = [metric for metric in self.protocol.metrics if isinstance(metric, PairMetric)]
        if of_classes:
            clusters = self.rows.labels[scores.queries] if scores.per_query else None
            known = [metric for metric in metrics if scores.values[metric.name] is not None]
            # Of a mean over several searches there is no single set of pairs.
            if known and len(self.protocol.tasks(self.rows)) == 1:
                intervals = metric_intervals(self.protocol.pairs(self.embeddings, self.rows), known)
        if scores.per_query or not intervals:
            intervals = {**bootstrap_intervals(scores.per_query, clusters), **intervals}
        return intervals


def source_of_files(embeddings, labels="", protocol="", metrics=(), index="", modules=()):
    """Returns the `Source` of files that any software has written.

    Args:
        embeddings: file of embeddings, or folder of `tfdml.embed`.
        labels: file of labels, where the embeddings have none with them.
        protocol: spec of a protocol; empty: `self_retrieval`, or `query_gallery` where rows are marked as queries.
        metrics: specs of metrics; empty for the protocol's own.
        index: spec of an index; empty for the protocol's own.
        modules: the user's modules that register parts.
    """
    registry.import_modules(modules)
    files = EmbeddingFiles.read(embeddings, labels)
    spec = protocol or ("self_retrieval" if files.is_query is None else "query_gallery")
    facts = {"embeddings": embeddings, "protocol": spec}
    return Source(facts, protocol_of(spec, metrics, index), files.embeddings, files)


def source_of_run(run_dir, which, index, changes):
    """Returns the `Source` of a run's test split.

    Args:
        run_dir: folder of the run.
        which: `best` or `final`.
        index: spec of the index that is searched; empty: as the protocol says.
        changes: settings to use instead of the run's, name to value.
    """
    # Here, because they import TensorFlow, which embeddings of files do without.
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.experiment.experiment import trained

    if "dataset" in changes:
        # These settings of the run are only for its own dataset, and its folder for datasets of that name.
        changes = {"protocol": "", "metrics": [], "ignore_images": "", **changes}
        own = RunDirectory(run_dir).settings().data.dataset
        if registry.parse(changes["dataset"])[0][0] != registry.parse(own)[0][0]:
            changes = {"data_dir": "", **changes}
    experiment, model = trained(run_dir, which, changes)
    split, settings = experiment.splits.test, experiment.settings
    metrics = measurable(experiment.splits.dataset, settings.evaluation.metrics)
    protocol = protocol_of(experiment.protocol_spec, metrics, index)
    facts = {"run_dir": run_dir, "model": which, "dataset": settings.data.dataset, "split": "test"}
    facts["protocol"] = experiment.protocol_spec
    return Source(facts, protocol, experiment.embed(model, split), split)


def source_of_model(make_embedder, path, dataset, data_dir="", protocol="", metrics=(), index="", modules=()):
    """Returns the `Source` of a dataset's test split, as a model embeds it.

    Args:
        make_embedder: function from the path of a model to its `ImageEmbedder` or `ExportedModel`.
        path: that path.
        dataset, data_dir: spec and folder of the dataset.
        protocol: spec of a protocol; empty: the dataset's.
        metrics, index, modules: as `source_of_files` takes them.
    """
    from pipelines.datasets import load

    registry.import_modules(modules)
    # Before a dataset is read: a wrong path is told at once.
    embedder = make_embedder(path)
    images = load(dataset, data_dir=data_dir, test_only=True)
    spec = protocol or images.protocol
    measure = protocol_of(spec, measurable(images, metrics), index)
    facts = {"model": path, "dataset": dataset, "split": "test", "protocol": spec}
    return Source(facts, measure, embedder.embed_split(images.test), images.test)
