"""Compares runs, or embeddings from files, on their test split."""

import itertools
import string
from typing import NamedTuple

import numpy as np

from tfdml import registry
from tfdml.evaluation.comparison import compare, compare_all, compare_pairs, right_alone
from tfdml.evaluation.metrics import PairMetric, RankMetric, metric_of
from tfdml.evaluation.protocols import protocol_of
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.evaluation.verification.thresholds import metric_intervals
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import AMONG_RUNS, trained
from tfdml.run.experiment.splits import measurable

# What test splits must share beside the names of the images, whose folder may be another one.
COLUMNS = ("labels", "class_names", "cameras", "groups", "is_query", "is_gallery")


def compare_runs(groups, which="best", metrics=(), *, bootstrap="classes", samples=2000, seed=0, changes=()):
    """Compares the runs A and B, or several of each, or of more groups, query by query.

    Args:
        groups: lists of run directories, of A, of B and so on.
        which: `best` or `final` model.
        metrics: metric specs; empty for those of the protocol that are means over queries.
        bootstrap: `classes` or `queries`; metrics of pairs are compared with `classes` alone.
        samples, seed: as `bootstrap_intervals` takes them.
        changes: settings to replace, name to value, such as `data_dir`, the folder of the dataset; see `trained`.

    Returns:
        What `python -m tfdml.compare` prints as JSON.
    """
    run_dirs = dict(zip(string.ascii_lowercase, groups, strict=False))
    every = list(itertools.chain(*groups))
    for run in map(RunDirectory, every):
        run.settings()
        run.complete_result()
        run.model_file(which)
    changes = {**AMONG_RUNS, **({"metrics": list(metrics)} if metrics else {}), **dict(changes)}
    opened = {run_dir: trained(run_dir, which, changes) for run_dir in every}
    experiments = {run_dir: experiment for run_dir, (experiment, _) in opened.items()}
    check_alike(experiments)
    experiment = experiments[every[0]]
    compared, of_pairs = compared_metrics(experiment, metrics, bootstrap)
    by_name = {"recall_at_1": metric_of("recall_at_1")} | {metric.name: metric for metric in compared}
    test, protocol = experiment.splits.test, experiment.splits.protocol
    embeddings = {run_dir: each.embed(model, each.splits.test) for run_dir, (each, model) in opened.items()}
    scores = {run_dir: protocol.scores(each, test, list(by_name.values())) for run_dir, each in embeddings.items()}
    of_groups = {name: [scores[run_dir] for run_dir in group] for name, group in run_dirs.items()}
    queries = scores[every[0]].queries
    classes = experiment.splits.test.labels[queries] if bootstrap == "classes" else None
    about = {"clusters": classes, "samples": samples, "seed": seed}
    found = {}
    if compared:
        two = len(groups) == 2
        found = compare(*of_groups.values(), compared, **about) if two else compare_all(of_groups, compared, **about)
    if of_pairs:
        pairs = {name: [protocol.pairs(embeddings[each], test) for each in group] for name, group in run_dirs.items()}
        found |= compare_pairs(pairs, of_pairs, samples=samples, seed=seed)
    return {
        **run_dirs,
        "model": which,
        "dataset": experiment.settings.data.dataset,
        "split": "test",
        "protocol": experiment.protocol_spec,
        "queries": len(queries),
        "bootstrap": bootstrap,
        "samples": samples,
        "seed": seed,
        "metrics": found,
        "right_alone": right_alone(of_groups),
    }


def compared_metrics(experiment, specs=(), bootstrap="classes"):
    """Returns the metrics that runs are compared by: means over queries, and of pairs, where classes are drawn.

    Args:
        experiment: `Experiment` of one of them.
        specs: what `--metrics` says; empty: those of the protocol that are means over queries.
        bootstrap: `queries` or `classes`.
    """
    protocol = experiment.splits.protocol
    of_pairs = [metric for metric in protocol.metrics if isinstance(metric, PairMetric)] if specs else []
    if not of_pairs:
        return means_over_queries(protocol, specs), []
    names = ",".join(metric.name for metric in of_pairs)
    if bootstrap != "classes":
        raise ValueError(f"{names}: metrics of pairs are no means over queries. Compare them with --bootstrap=classes.")
    if len(protocol.tasks(experiment.splits.test)) > 1:
        raise ValueError(f"{names}: this protocol measures several searches, and has no single set of pairs.")
    others = [spec for spec in specs if not isinstance(metric_of(spec), PairMetric)]
    return (means_over_queries(protocol.with_metrics(others), specs) if others else []), of_pairs


def means_over_queries(protocol, specs=()):
    """Returns the metrics of a protocol that are means over queries.

    Args:
        protocol: `Protocol`.
        specs: what `--metrics` says; if not empty, all metrics of the protocol must be such means.
    """
    over_queries = [metric for metric in protocol.metrics if isinstance(metric, RankMetric)]
    others = [metric.name for metric in protocol.metrics if metric not in over_queries]
    if not over_queries or (specs and others):
        raise ValueError(
            "Runs are compared query by query. Expected --metrics that are means over queries, such as recall_at_1; "
            f"received {','.join(others)}."
        )
    return over_queries


def check_alike(experiments, doing="Compare"):
    """Raises if not all runs are measured on the same queries in the same way.

    Args:
        experiments: run directory to `Experiment`.
        doing: what is done with the runs, for errors.
    """
    for (first_dir, first), (second_dir, second) in itertools.pairwise(experiments.items()):
        for what, about, advice in (
            ("datasets", lambda each: each.settings.data.dataset, f"{doing} runs of one dataset."),
            ("protocols", _protocol, f"{doing} runs of one protocol."),
            ("metrics", _metrics, "Choose them by --metrics."),
        ):
            if about(first) != about(second):
                raise ValueError(
                    f"{first_dir} and {second_dir} have different {what}: {about(first)}, and {about(second)}. {advice}"
                )
        if not _same_rows(first.splits.test, second.splits.test):
            counts = f"{len(first.splits.test)} and {len(second.splits.test)}"
            raise ValueError(
                f"{first_dir} and {second_dir} have different test images ({counts}), so different queries. Check "
                "their --data_dir and --ignore_images, and whether the images have changed since."
            )


def _protocol(experiment):
    protocol = experiment.splits.protocol
    arguments = [f"{name}={value!r}" for name, value in vars(protocol).items() if name != "metrics"]
    return f"{type(protocol).__name__}({', '.join(arguments)})"


def _metrics(experiment):
    return ",".join(metric.name for metric in experiment.splits.protocol.metrics)


def _same_rows(one, other):
    columns = ((getattr(one, name), getattr(other, name)) for name in COLUMNS)
    return np.array_equal(one.identities, other.identities) and all(itertools.starmap(np.array_equal, columns))


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
