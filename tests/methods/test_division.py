"""The plan of Divide and Conquer."""

import pytest

from tfdml.methods.division import Division


def plan(division, epochs=10):
    """Of each epoch: `new` clusters, clusters and `turns`, clusters (`data`) alone, or `one`."""

    def word(epoch):
        if not division.divides_data(epoch):
            return "one"
        if division.divides_anew(epoch):
            return "new"
        return "turns" if division.divides_embedding(epoch) else "data"

    return [word(epoch) for epoch in range(epochs)]


def test_as_algorithm_1_has_it():
    assert plan(Division(), 6) == ["new", "turns"] * 3


def test_first_and_last_epochs_may_be_undivided():
    division = Division(divide_at=2, recluster_every=3, merge_at=8)
    assert plan(division) == ["one", "one", "new", "turns", "turns", "new", "turns", "turns", "one", "one"]


def test_the_loss_may_merge_before_the_data():
    division = Division(recluster_every=2, merge_loss_at=4, merge_at=8)
    assert plan(division) == ["new", "turns", "new", "turns", "new", "data", "new", "data", "one", "one"]
    assert [division.divides_embedding(epoch) for epoch in (3, 4)] == [True, False]


@pytest.mark.parametrize("data_split", ["random", "labels"])
def test_fixed_parts_are_made_once(data_split):
    assert plan(Division(data_split=data_split, recluster_every=1), 4) == ["new", "turns", "turns", "turns"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"data_split": "kmean"}, "data_split to be one of 'kmeans', 'random', 'labels'; received 'kmean'"),
        ({"cluster_order": "random"}, "cluster_order to be one of 'uniform', 'proportional', 'round_robin'"),
        ({"learners": 0}, "learners to be an integer of 1 or more; received 0"),
        ({"divide_at": 0.5}, "divide_at to be an integer of 0 or more; received 0.5"),
        ({"restarts": 0}, "restarts to be an integer of 1 or more; received 0"),
        ({"merge_at": 3.0}, "merge_at to be None or an integer of 0 or more; received 3.0"),
        ({"recluster_every": 0}, "recluster_every to be an integer of 1 or more"),
        ({"divide_at": 5, "merge_at": 4}, "divide_at <= merge_loss_at <= merge_at; received 5, None and 4"),
        ({"merge_loss_at": 5, "merge_at": 4}, "received 0, 5 and 4"),
    ],
)
def test_what_cannot_be_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        Division(**arguments)
