"""Verification of explicit pairs: pair files, and LFW's accuracy compared with a loop."""

import json

import numpy as np
import pytest
import sklearn.metrics

import tfdml
from tests.commands import assert_one_error, run
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.verification.pair_list import PairList
from tfdml.evaluation.verification.thresholds import verified

LFW = """2 2
Ann_A 1 4
Bob 2 3
Ann_A 1 Bob 2
Cid 1 Bob 10
Dee 1 2
Eve 3 1
Dee 2 Eve 12
Fay 1 Dee 1
"""


def written(tmp_path, text, name="pairs.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_format_of_lfw(tmp_path):
    found = PairList.read(written(tmp_path, LFW.replace(" ", "\t")))
    assert (found.first[0], found.second[0]) == ("Ann_A/Ann_A_0001.jpg", "Ann_A/Ann_A_0004.jpg")
    assert (found.first[6], found.second[6]) == ("Dee/Dee_0002.jpg", "Eve/Eve_0012.jpg")
    assert found.same.tolist() == [True, True, False, False] * 2
    assert found.folds.tolist() == [0] * 4 + [1] * 4 and found.lines == list(range(2, 10))


def test_of_one_part_tenths_are_made(tmp_path):
    lines = [f"A 1 {number}" for number in range(2, 14)] + [f"A 1 B {number}" for number in range(1, 13)]
    found = PairList.read(written(tmp_path, "\n".join(["12", *lines])))
    assert np.bincount(found.folds[found.same]).tolist() == [2, 2] + [1] * 8
    assert np.bincount(found.folds[~found.same]).tolist() == [2, 2] + [1] * 8


def test_tables(tmp_path):
    rows = [f"a/{number}.jpg, b.jpg,{'yes' if number % 2 else '0'}" for number in range(24)]
    found = PairList.read(written(tmp_path, "\n".join(["a,b,same", *rows, "  ", ",,", ""]), "pairs.csv"))
    assert found.first[3] == "a/3.jpg" and found.second[3] == "b.jpg" and found.lines[3] == 5
    assert found.same.tolist() == [False, True] * 12
    assert np.bincount(found.folds).tolist() == [4, 4] + [2] * 8


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("pairs.txt", "", "line 1: expected the numbers of folds and of pairs"),
        ("pairs.txt", "two 3\n", "line 1: expected the numbers of folds and of pairs of each kind per fold. Received"),
        ("pairs.txt", "2 3\nA 1 2\n", "line 1 announces 2 × 2 × 3 pairs, but 1 lines follow"),
        ("pairs.txt", LFW.replace("Bob 2 3", "Bob 2"), "line 3: expected a name and two numbers. Received: 'Bob 2'"),
        ("pairs.txt", LFW.replace("Cid 1 Bob 10", "Cid 1 Bob X"), "line 5: expected a name, a number, a name"),
        ("pairs.csv", "a,b\n", "line 1: expected the header a,b,same. Received: 'a,b'"),
        ("pairs.csv", "a,b,same\nx,y,1\nx,y,2\n", "line 3: expected two names and 1 or 0. Received: 'x,y,2'"),
        ("pairs.csv", "a,b,same\nx,y\n", "line 2: expected two names and 1 or 0. Received: 'x,y'"),
        ("pairs.csv", "a,b,same\nx,y,1\nx,z,1\n", "Only 0 of 2 pairs are of different classes"),
        ("pairs.csv", "a,b,same\nx,y,0\nx,z,0\n", "Only 0 of 2 pairs are of the same class"),
        ("pairs.csv", 'a,b,same\n"x,y,1\n', "line 2: "),
        ("pairs.csv", '"a,b,same\nx,y,1\n', "line 2: unexpected end of data"),
        ("pairs.csv", "a,b,same\n", "does not contain any pairs"),
    ],
)
def test_bad_files_are_told_by_line(tmp_path, name, text, words):
    path = written(tmp_path, text, name)
    with pytest.raises(ValueError) as error:
        PairList.read(path)
    assert words in str(error.value) and str(path) in str(error.value)


def naive(scores, same, folds):
    """Accuracy on each fold with the threshold that is best on the others, found by trying all."""
    accuracies = []
    for fold in sorted(set(folds)):
        others, here = folds != fold, folds == fold
        tried = sorted(set(scores[others]))
        middles = [*((low + high) / 2 for low, high in zip(tried, tried[1:], strict=False)), tried[-1] + 1, tried[0]]
        best = max(np.mean((scores[others] >= threshold) == same[others]) for threshold in middles)
        right = [t for t in middles if np.mean((scores[others] >= t) == same[others]) == best]
        accuracies.append(np.mean((scores[here] >= max(right)) == same[here]))
    return accuracies


@pytest.mark.parametrize("seed", range(4))
def test_each_part_is_decided_by_the_others(seed):
    random = np.random.default_rng(seed)
    same = np.arange(200) % 2 == 0
    scores, folds = random.normal(size=200) + 1.2 * same, random.integers(0, 10, 200)
    found = verified(scores, same, folds, metrics_of(("roc_auc", "tar_at_far_0.1", "tar_at_far_0.001")))
    expected = naive(scores, same, folds)
    assert found["fold_accuracies"] == pytest.approx(expected)
    assert found["accuracy"] == pytest.approx(np.mean(expected))
    assert found["standard_error"] == pytest.approx(np.std(expected, ddof=1) / np.sqrt(10))
    assert found["roc_auc"] == pytest.approx(sklearn.metrics.roc_auc_score(same, scores))
    assert found["tar_at_far_0.001"] is None and (found["same"], found["different"]) == (100, 100)


@pytest.fixture
def archive(tmp_path):
    """Named embeddings of two images for each of twelve classes, and pairs of these images."""
    names = [f"{label}/{image}.jpg" for label in range(12) for image in range(2)]
    embeddings = np.repeat(np.eye(12), 2, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(24, 12))
    np.savez(tmp_path / "named.npz", embeddings=embeddings, names=np.array(names, "S"))
    np.save(tmp_path / "rows.npy", embeddings)
    rows = [f"{label}/0.jpg,{label}/1.jpg,1" for label in range(12)]
    rows += [f"{label}/0.jpg,{(label + 1) % 12}/1.jpg,0" for label in range(12)]
    written(tmp_path, "\n".join(["a,b,same", *rows]), "pairs.csv")
    return tmp_path


def test_the_command_verifies_embeddings(archive):
    done = run("tfdml.evaluate", f"--embeddings={archive}/named.npz", f"--pairs={archive}/pairs.csv")
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["accuracy"], found["standard_error"], found["roc_auc"]) == (1.0, 0.0, 1.0)
    assert found["tar_at_far_0.1"] == 1.0 and "tar_at_far_0.01" not in found
    numbers = "a,b,same\n" + "".join(f"0,1,1\n2,3,1\n{row},{row + 5},0\n" for row in range(4))
    written(archive, numbers, "rows.csv")
    flags = (f"--embeddings={archive}/rows.npy", f"--pairs={archive}/rows.csv", "--metrics=d_prime")
    found = json.loads(run("tfdml.evaluate", *flags).stdout.splitlines()[-1])
    assert found["accuracy"] == 1.0 and found["d_prime"] > 5 and "roc_auc" not in found


def test_what_the_command_refuses_of_pairs(archive):
    given = (f"--embeddings={archive}/named.npz", f"--pairs={archive}/pairs.csv")
    for flag, words in {
        "--bootstrap=classes": "--bootstrap has no effect here, because --pairs verifies pairs",
        "--metrics=recall_at_1": "such as roc_auc. Received: recall_at_1",
        "--metrics=opis": "Received: opis",
        f"--pairs={archive}/none.txt": "none.txt does not exist",
    }.items():
        assert_one_error(run("tfdml.evaluate", *given, flag), words)
    with open(archive / "pairs.csv", "a") as file:
        file.write("\n0/0.jpg,77/1.jpg,0\n")
    assert_one_error(run("tfdml.evaluate", *given), "pairs.csv, line 26: the image '77/1.jpg' is not in", "named.npz")


@pytest.mark.nightly
def test_the_command_verifies_images_with_a_run(archive, finished):
    from pipelines.datasets.toycars import toycars
    from tests.run_helpers import pictures

    split = toycars(data_dir=pictures(), classes=16, images_per_class=8, image_size=24).test
    random, rows, pairs = np.random.default_rng(0), ["a,b,same"], []
    for place, content in enumerate(split.images):
        (archive / f"{place}.jpg").write_bytes(content)
    for number in range(40):
        first = random.integers(len(split))
        alike = (split.labels == split.labels[first]) == (number % 2 == 0)
        second = random.choice(np.setdiff1d(np.flatnonzero(alike), [first]))
        pairs.append((first, second))
        rows.append(f"{first}.jpg,{second}.jpg,{int(number % 2 == 0)}")
    path = written(archive, "\n".join(rows), "cars.csv")
    done = run("tfdml.evaluate", f"--run_dir={finished}", f"--pairs={path}", f"--data_dir={archive}")
    found = json.loads(done.stdout.splitlines()[-1])
    embeddings = tfdml.load(finished).embed([str(archive / f"{place}.jpg") for place in range(len(split))])
    scores = [embeddings[first] @ embeddings[second] for first, second in pairs]
    assert (found["same"], found["different"]) == (20, 20)
    assert found["roc_auc"] == pytest.approx(sklearn.metrics.roc_auc_score([1, 0] * 20, scores), abs=1e-6)
    rows.append("none.jpg,other.jpg,1")
    written(archive, "\n".join(rows), "cars.csv")
    done = run("tfdml.evaluate", f"--model={finished}/model.keras", f"--pairs={path}", f"--data_dir={archive}")
    assert_one_error(done, f"cars.csv, line 42: the image 'none.jpg' is not in {archive}")
