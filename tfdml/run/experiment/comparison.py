"""Compares runs on their test split."""

import itertools
import string

import numpy as np

from pipelines.stored import StoredVectors
from tfdml.evaluation.comparison import compare, compare_all, compare_pairs, right_by_all
from tfdml.evaluation.metrics import PairMetric, RankMetric, metric_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import AMONG_RUNS, trained

# Columns that must be equal in test splits, in addition to the names of the images without their folders.
COLUMNS = ("labels", "class_names", "cameras", "groups", "is_query", "is_gallery")


def compare_runs(groups, which="best", metrics=(), *, bootstrap="classes", samples=2000, seed=0, changes=()):
    """Compares groups of runs query by query; returns the dictionary that `python -m tfdml.compare` prints as JSON.

    Args:
        groups: lists of run directories, one list per group.
        which: `best` or `final` models.
        metrics: specs of metrics. If empty, the metrics of the protocol that are means over queries.
        bootstrap: what to resample, `classes` or `queries`. Pair metrics need `classes`.
        samples, seed: number and seed of the resamples.
        changes: settings to replace; see `trained`.
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
    check_alike(experiments, any_features=True)
    experiment = experiments[every[0]]
    of_queries, of_pairs = compared_metrics(experiment, metrics, bootstrap)
    by_name = {"recall_at_1": metric_of("recall_at_1")} | {metric.name: metric for metric in of_queries}
    test, protocol = experiment.splits.test, experiment.splits.protocol
    embeddings = {run_dir: each.embed(model, each.splits.test) for run_dir, (each, model) in opened.items()}
    scores = {run_dir: protocol.scores(each, test, list(by_name.values())) for run_dir, each in embeddings.items()}
    of_groups = {name: [scores[run_dir] for run_dir in group] for name, group in run_dirs.items()}
    queries = scores[every[0]].queries
    options = {"samples": samples, "seed": seed}
    compared = {}
    if of_queries:
        options_of_queries = {"clusters": test.labels[queries] if bootstrap == "classes" else None, **options}
        if len(groups) == 2:
            compared = compare(*of_groups.values(), of_queries, **options_of_queries)
        else:
            compared = compare_all(of_groups, of_queries, **options_of_queries)
    if of_pairs:
        pairs = {name: [protocol.pairs(embeddings[each], test) for each in group] for name, group in run_dirs.items()}
        compared |= compare_pairs(pairs, of_pairs, **options)
    return {
        **run_dirs,
        "model": which,
        "dataset": experiment.settings.data.dataset,
        "split": "test",
        "protocol": experiment.protocol_spec,
        "queries": len(queries),
        "bootstrap": bootstrap,
        **options,
        "metrics": compared,
        "right_alone": {name: int(right.sum()) for name, right in right_by_all(of_groups)[1].items()},
    }


def compared_metrics(experiment, specs=(), bootstrap="classes"):
    """Returns the metrics to compare runs by: means over queries, and pair metrics if classes are resampled.

    If the `specs` of `--metrics` are empty, these are the protocol's means over queries.
    """
    protocol = experiment.splits.protocol
    of_pairs = [metric for metric in protocol.metrics if isinstance(metric, PairMetric)] if specs else []
    if not of_pairs:
        return means_over_queries(protocol, specs), []
    names = ",".join(metric.name for metric in of_pairs)
    if bootstrap != "classes":
        raise ValueError(f"{names}: pair metrics are not means over queries. Compare them with --bootstrap=classes.")
    if len(protocol.tasks(experiment.splits.test)) > 1:
        raise ValueError(
            f"{names}: this protocol measures several searches, so it has no single set of pairs. Remove pair metrics "
            "from --metrics."
        )
    others = [spec for spec in specs if not isinstance(metric_of(spec), PairMetric)]
    return (means_over_queries(protocol.with_metrics(others), specs) if others else []), of_pairs


def means_over_queries(protocol, specs=()):
    """Returns the metrics of a protocol that are means over queries.

    If the `specs` of `--metrics` are not empty, all metrics must be such means.
    """
    over_queries = [metric for metric in protocol.metrics if isinstance(metric, RankMetric)]
    others = [metric.name for metric in protocol.metrics if metric not in over_queries]
    if not over_queries or (specs and others):
        raise ValueError(
            "Runs are compared query by query, so --metrics must be means over queries, such as recall_at_1. "
            f"Received: {','.join(others)}."
        )
    return over_queries


def check_alike(experiments, doing="Compare", any_features=False):
    """Raises an error unless all runs are measured on the same queries in the same way; `doing` starts its advice.

    If `any_features`, runs may use stored features of different networks.
    """
    for (first_dir, first), (second_dir, second) in itertools.pairwise(experiments.items()):
        tests = first.splits.test, second.splits.test
        # Features of the same images by different networks differ, so only their labels can be compared.
        vectors = any_features and all(isinstance(each.images, StoredVectors) for each in tests)
        dataset = ("datasets", lambda each: each.settings.data.dataset, f"{doing} runs on the same dataset.")
        for what, property_of, advice in (
            *([] if vectors else [dataset]),
            ("protocols", _protocol, f"{doing} runs with the same protocol."),
            ("metrics", _metrics, "Set --metrics."),
        ):
            one, other = property_of(first), property_of(second)
            if one != other:
                raise ValueError(f"{first_dir} and {second_dir} have different {what}: {one} and {other}. {advice}")
        # Identities are the names of images without their folder, which may differ.
        columns = COLUMNS if vectors else ("identities", *COLUMNS)
        if not all(np.array_equal(*(getattr(each, name) for each in tests)) for name in columns):
            raise ValueError(
                f"{first_dir} and {second_dir} have different test images ({len(tests[0])} and {len(tests[1])}), so "
                "their queries differ. Check their --data_dir and --ignore_images, and whether the images have changed "
                "since."
            )


def _protocol(experiment):
    protocol = experiment.splits.protocol
    arguments = [f"{name}={value!r}" for name, value in vars(protocol).items() if name != "metrics"]
    return f"{type(protocol).__name__}({', '.join(arguments)})"


def _metrics(experiment):
    return ",".join(metric.name for metric in experiment.splits.protocol.metrics)
