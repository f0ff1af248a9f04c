"""Tables of pairs and of triplets."""

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import load
from pipelines.datasets.loading import from_anywhere
from pipelines.datasets.pairs import pairs
from pipelines.packing import pack

TABLE = "a,b,same\na.jpg,b.jpg,1\na.jpg,c.jpg,0\nd.jpg,e.jpg,yes\nd.jpg,f.jpg,no\ng.jpg,h.jpg,1\n"
TRIPLETS = "anchor,positive,negative\na.jpg,b.jpg,c.jpg\na.jpg,b.jpg,d.jpg\ne.jpg,f.jpg,g.jpg\n"


@pytest.fixture
def write(tmp_path):
    """Function that writes a table, and the images a to h."""
    for name in "abcdefgh":
        Image.fromarray(np.full((20, 20, 3), ord(name), np.uint8)).save(tmp_path / f"{name}.jpg")

    def table(text):
        (tmp_path / "pairs.csv").write_text(text)
        return tmp_path / "pairs.csv"

    return table


def told(split):
    """Returns the relations of a split, by names of images."""
    names = {label: path.rpartition("/")[2][0] for label, path in zip(split.labels.tolist(), split.images, strict=True)}
    return {tuple(names.get(label, "") for label in row) for row in split.relations.tolist()}


def test_pairs_are_held_out_in_groups_that_they_connect(write):
    dataset = load(f"pairs(file='{write(TABLE)}', held_out=0.3)")
    train, test = dataset.train, dataset.test
    known = {("a", "b", ""), ("a", "", "c"), ("d", "e", ""), ("d", "", "f"), ("g", "h", "")}
    assert told(train) | told(test) == known and not told(train) & told(test)
    # Of both kinds.
    assert told(test) & {("a", "", "c"), ("d", "", "f")} and not set(train.images) & set(test.images)
    assert dataset.protocol == "given_pairs" and not dataset.has_classes


def test_triplets_and_a_column_of_splits(write):
    rows = TRIPLETS.replace("negative\n", "negative,split\n").replace("c.jpg\n", "c.jpg,train\n")
    rows = rows.replace("d.jpg\n", "d.jpg,train\n").replace("g.jpg\n", "g.jpg,test\n")
    dataset = pairs(write(rows))
    assert told(dataset.train) == {("a", "b", "c"), ("a", "b", "d")} and told(dataset.test) == {("e", "f", "g")}


def test_weights_say_how_often_a_pair_trains(write):
    rows = "a,b,same,split,weight\na.jpg,b.jpg,1,train,3\na.jpg,c.jpg,0,train,1\nd.jpg,e.jpg,1,test,7\n"
    dataset = pairs(write(rows))
    labels = dict(zip([path[-5] for path in dataset.train.images], dataset.train.labels.tolist(), strict=True))
    assert dataset.train.relations.tolist() == [[labels["a"], labels["b"], -1]] * 3 + [[labels["a"], -1, labels["c"]]]
    assert len(dataset.test.relations) == 1


def test_labels_without_gaps_and_fewer_images_keep_what_is_known(write):
    train = pairs(write(TABLE), held_out=0.3).train
    assert told(train.numbered()) == told(train)
    assert train.numbered().labels.tolist() == list(range(len(train)))
    first = next(iter(train.images))
    rest = train.where(train.images != first)
    known = {row for row in told(train) if first.rpartition("/")[2][0] not in row}
    assert told(rest.numbered()) == known


def test_validation_holds_out_whole_groups(write):
    dataset = pairs(write(TABLE), held_out=0.1)
    train, held = dataset.hold_out(0.5, seed=0)
    assert len(train.known_relations) and len(held.known_relations)
    assert len(train.known_relations) + len(held.known_relations) == len(dataset.train.relations)


def test_a_run_finds_the_table_from_anywhere(write, monkeypatch):
    table = write(TABLE)
    monkeypatch.chdir(table.parent)
    assert from_anywhere("pairs(file='pairs.csv')", None) == f"pairs(file='{table}')"
    assert len(load("pairs(file='pairs.csv')", data_dir=table.parent).test)


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\na.jpg,b.jpg\n", r"Expected a,b,same or anchor,positive,negative.* Received: \['a', 'b'\]"),
        ("a,b,same\n", "has a header but no rows"),
        ("a,b,same\na.jpg,b.jpg,perhaps\n", "line 2: same must be 1 or 0. Received: 'perhaps'"),
        ("a,b,same,weight\na.jpg,b.jpg,1,0\n", "line 2: weight must be an integer from 1 to 1000. Received: '0'"),
        ("a,b,same\na.jpg,,1\n", "line 2: b is empty"),
        ("a,b,same\na.jpg,./a.jpg,1\n", "line 2: 'a.jpg' is compared with itself"),
        ("a,b,same,split\na.jpg,b.jpg,1,dev\n", "split must be train or test. Received: 'dev'"),
        ("a,b,same,split\na.jpg,b.jpg,1,train\na.jpg,c.jpg,0,test\n", "has 1 images in both splits.*'a.jpg'"),
        ("a,b,same\na.jpg,b.jpg,1\nb.jpg,c.jpg,0\n", "connect its 3 images to 1 groups.*Add a column split"),
    ],
)
def test_what_is_wrong_with_a_table_is_told(write, text, message):
    with pytest.raises(ValueError, match=message):
        pairs(write(text))


def test_pairs_of_unknown_images_are_named(write, tmp_path):
    table = write(TABLE.replace("f.jpg", "nowhere.jpg"))
    with pytest.raises(FileNotFoundError, match="1 of .* listed images are missing, for example .*nowhere.jpg"):
        load(f"pairs(file='{table}')")
    with pytest.raises(FileNotFoundError, match="The table .*missing.csv does not exist. Expected .* a,b,same"):
        load("pairs(file='missing.csv')")


def test_a_pack_needs_classes(write, tmp_path):
    table = write(TABLE)
    with pytest.raises(ValueError, match="pipelines.pack needs a dataset with classes, but pairs has none"):
        pack(load(f"pairs(file={str(table)!r})"), tmp_path / "packed", images=4)
    assert not (tmp_path / "packed").exists()
