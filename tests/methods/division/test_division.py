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


def test_embeddings_are_split_and_joined_once():
    division = Division(divide_at=2, merge_loss_at=5, merge_at=7, finetune="embedding")
    assert [epoch for epoch in range(10) if division.splits_embedding(epoch)] == [2]
    assert [epoch for epoch in range(10) if division.joins_embedding(epoch)] == [5]
    assert [epoch for epoch in range(10) if division.trains_embedding_alone(epoch)] == [7, 8, 9]
    # Nothing comes before the first epoch.
    assert not Division().splits_embedding(0) and not Division(merge_at=0).joins_embedding(0)
    whole = Division(split_embedding=False, divide_at=1, merge_at=2)
    assert not any(whole.splits_embedding(epoch) or whole.joins_embedding(epoch) for epoch in range(4))
    assert not any(Division(merge_at=2).trains_embedding_alone(epoch) for epoch in range(4))


@pytest.mark.parametrize("data_split", ["random", "random_classes", "labels"])
def test_fixed_parts_are_made_once(data_split):
    assert plan(Division(data_split=data_split, recluster_every=1), 4) == ["new", "turns", "turns", "turns"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"finetune": "embedding"},
            "finetune='embedding' starts at the epoch merge_at. .* Received: merge_at=None",
        ),
        ({"divide_at": 5, "merge_at": 4}, "Received: divide_at=5, merge_loss_at=None, merge_at=4"),
        ({"merge_loss_at": 5, "merge_at": 4}, "Received: divide_at=0, merge_loss_at=5, merge_at=4"),
        ({"simultaneous": True, "split_embedding": False}, "split_embedding=True. Received: split_embedding=False"),
    ],
)
def test_what_cannot_be_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        Division(**arguments)
