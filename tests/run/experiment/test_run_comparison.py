"""Runs must share dataset, protocol, metrics and images to be compared."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.dataset import Split
from pipelines.stored import StoredVectors
from tfdml import registry
from tfdml.console.settings import Settings
from tfdml.run.experiment.comparison import check_alike, compared_metrics, means_over_queries

SPLIT = Split(np.array([f"photos/{name}.jpg" for name in "abcd"], object), np.array([0, 0, 1, 1]))


def experiment(dataset="folder", protocol="query_gallery", split=SPLIT):
    splits = SimpleNamespace(test=split, protocol=registry.create("protocol", protocol))
    return SimpleNamespace(settings=Settings().replace(dataset=dataset), splits=splits)


def moved(names):
    return dataclasses.replace(SPLIT, images=np.array([f"elsewhere/{name}.jpg" for name in names], object))


def test_the_folder_and_the_way_to_write_the_protocol_may_differ():
    others = experiment(split=moved("abcd")), experiment(protocol="query_gallery(distance='cosine')")
    check_alike({"a": experiment(), "b": others[0], "c": others[1]})


@pytest.mark.parametrize(
    "other, words",
    [
        (experiment(dataset="sop"), "b and c have different datasets: folder and sop"),
        (experiment(protocol="query_gallery(junk=-1)"), r"different protocols: .*junk=None.* and .*junk=-1"),
        (experiment(protocol="self_retrieval"), "different protocols: QueryGallery.* and SelfRetrieval"),
        (experiment(protocol="query_gallery(metrics=('map', 'mrr'))"), "different metrics: .* and map,mrr. Set"),
        (experiment(split=SPLIT.where([0, 1, 2])), r"different test images \(4 and 3\), so their queries differ"),
        (experiment(split=moved("abce")), "different test images"),
        (experiment(split=dataclasses.replace(SPLIT, labels=np.array([0, 1, 1, 1]))), "different test images"),
        (experiment(split=dataclasses.replace(SPLIT, class_names={0: "wren", 1: "jay"})), "different test images"),
        (experiment(split=dataclasses.replace(SPLIT, is_query=np.array([True, True, True, False]))), "different test"),
    ],
)
def test_runs_that_are_measured_differently(other, words):
    with pytest.raises(ValueError, match=words):
        check_alike({"a": experiment(), "b": experiment(), "c": other})


def of_features(seed, labels=SPLIT.labels):
    vectors = StoredVectors([np.random.default_rng(seed).normal(size=(4, 3 + seed)).astype(np.float32)])
    return experiment(dataset=f"embeddings(path='{seed}')", split=Split(vectors, np.array(labels)))


def test_features_of_different_networks_are_compared_where_they_may_differ():
    both = {"a": of_features(0), "b": of_features(1)}
    check_alike(both, any_features=True)
    with pytest.raises(ValueError, match="different datasets"):
        check_alike(both)
    with pytest.raises(ValueError, match="different test images"):
        check_alike({**both, "c": of_features(2, [0, 1, 1, 1])}, any_features=True)
    with pytest.raises(ValueError, match="different datasets"):
        check_alike({"a": of_features(0), "b": experiment()}, any_features=True)


def test_only_means_over_queries_are_compared():
    def names(*metrics, specs=()):
        protocol = registry.create("protocol", "self_retrieval").with_metrics(metrics)
        return [metric.name for metric in means_over_queries(protocol, specs)]

    assert names("map", "nmi") == ["map"]
    for metrics, specs in ((("map", "nmi"), ("map", "nmi")), (("nmi",), ())):
        with pytest.raises(ValueError, match="--metrics must be means over queries.* Received: nmi"):
            names(*metrics, specs=specs)


def test_metrics_of_pairs_are_compared_where_classes_are_drawn():
    def names(specs, bootstrap="classes", protocol="self_retrieval"):
        made = registry.create("protocol", protocol).with_metrics(specs)
        splits = SimpleNamespace(protocol=made, test=SPLIT)
        compared = compared_metrics(SimpleNamespace(splits=splits), specs, bootstrap)
        return [[metric.name for metric in each] for each in compared]

    assert names(("map", "roc_auc", "opis")) == [["map"], ["roc_auc", "opis"]]
    assert names(("roc_auc",)) == [[], ["roc_auc"]] and names(("map",), "queries") == [["map"], []]
    with pytest.raises(ValueError, match="roc_auc: pair metrics are not means over queries.*--bootstrap=classes"):
        names(("map", "roc_auc"), "queries")
    with pytest.raises(ValueError, match="--metrics must be means over queries"):
        names(("nmi", "roc_auc"))
