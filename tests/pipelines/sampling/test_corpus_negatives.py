"""Hard negatives of the whole training set pass all filters, as in a loop."""

import json

import numpy as np
import pytest

from benchmarks.studies import corpus_negatives as study
from pipelines.datasets import Split
from pipelines.sampling import CorpusNegatives, WithinClusters
from pipelines.sampling.corpus import repeated
from tests.commands import ROOT, assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, train_flags
from tests.serving_fixtures import exported, picture
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.image_list import ImageList

# The last class has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 6 + [1] * 8 + [2] * 9 + [3] * 7 + [4])
EMBEDDINGS = np.random.default_rng(1).normal(size=(len(LABELS), 4)).astype(np.float32)
TAUGHT = np.random.default_rng(2).normal(size=(len(LABELS), 5)).astype(np.float32)


def cosine(vectors, row, other):
    one, two = vectors[row].astype(float), vectors[other].astype(float)
    return one @ two / np.linalg.norm(one) / np.linalg.norm(two)


def candidates_of(row, ranks, models):
    """By loops: the rows of other classes in the range of ranks that every model finds less similar."""
    others = [other for other in range(len(LABELS)) if LABELS[other] != LABELS[row]]
    positives = [other for other in range(len(LABELS)) if LABELS[other] == LABELS[row] and other != row]
    others = sorted(others, key=lambda other: -cosine(EMBEDDINGS, row, other))[slice(*ranks)]
    for vectors, margin in models:
        nearest = max((cosine(vectors, row, other) for other in positives), default=np.inf)
        others = [other for other in others if cosine(vectors, row, other) <= nearest - margin]
    return others


@pytest.mark.parametrize("ranks", [(0, 100), (2, 9)])
@pytest.mark.parametrize("margin", [None, 0.0, 0.3])
@pytest.mark.parametrize("teacher_margin", [None, 0.1])
def test_the_table_is_that_of_a_loop(ranks, margin, teacher_margin):
    about = {} if teacher_margin is None else {"teacher": "somewhere", "teacher_margin": teacher_margin}
    sampler = CorpusNegatives(pairs=2, neighbors=4, ranks=ranks, margin=margin, **about)
    sampler.bind(LABELS)
    models = [] if margin is None else [(EMBEDDINGS, margin)]
    if teacher_margin is not None:
        sampler._taught = TAUGHT
        models.append((TAUGHT, teacher_margin))
    sampler.refresh(3 * EMBEDDINGS)
    found, filtered = sampler.refreshed()[0].numpy(), False
    assert found.shape == (len(LABELS), 4)
    for row, table in enumerate(found.tolist()):
        expected = candidates_of(row, ranks, models)[:4]
        filtered |= expected != candidates_of(row, ranks, [])[:4]
        assert table == [expected[place % len(expected)] if expected else -1 for place in range(4)]
    assert filtered == bool(models)


def test_a_duplicate_with_another_label_is_never_drawn():
    labels = np.repeat(np.arange(10), 4)
    embeddings = np.random.default_rng(3).normal(size=(10, 8))[labels] + 0.3 * EMBEDDINGS[:1, :1]
    embeddings = (embeddings + 0.2 * np.random.default_rng(4).normal(size=embeddings.shape)).astype(np.float32)
    embeddings[4] = embeddings[0]
    sampler = CorpusNegatives(pairs=4, neighbors=3, ranks=(0, 100), margin=0.05)
    sampler.bind(labels)
    sampler.refresh(embeddings)
    rows = sampler.rows(0, np.arange(200)).numpy()
    images, negatives = rows[:, :8], rows[:, 8:]
    assert np.all(labels[images] != labels[negatives])
    assert 4 not in negatives[images == 0] and 0 not in negatives[images == 4]


def test_batches_depend_on_the_seed_and_the_step_alone():
    sampler = CorpusNegatives(pairs=3, neighbors=5)
    sampler.bind(LABELS)
    sampler.refresh(EMBEDDINGS)
    whole = sampler.rows(7, np.arange(20)).numpy()
    np.testing.assert_array_equal(sampler.rows(7, np.array([13, 2])).numpy(), whole[[13, 2]])
    assert np.any(sampler.rows(8, np.arange(20)).numpy() != whole)


def test_kept_candidates_fill_all_places():
    found = repeated(np.array([[-1, 5, 6], [-1, -1, -1], [7, 8, 9]]), 5)
    assert found.tolist() == [[5, 6, 5, 6, 5], [-1] * 5, [7, 8, 9, 7, 8]] and found.dtype == np.int32
    assert repeated(np.array([[7, 8, 9]]), 2).tolist() == [[7, 8]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    for number in range(40):
        path = root / "photos" / f"class {number // 5}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    embed_images(root / "taught", ImageList.of(str(root / "photos")), model=exported())
    return root


def test_the_vectors_of_a_teacher_are_found_by_path(folder):
    images = ImageList.of(str(folder / "photos"))
    rows = np.random.default_rng(0).permutation(len(images))[:30]
    split = Split(np.array([images.paths[row] for row in rows], object), np.arange(30) // 3)
    sampler = CorpusNegatives(pairs=2, neighbors=2, teacher=str(folder / "taught"))
    sampler.bind_split(split)
    from tfdml.files.shards import EmbeddingShards

    np.testing.assert_array_equal(sampler._taught, EmbeddingShards(folder / "taught").rows(np.arange(40))[rows])
    sampler.refresh(TAUGHT[:30])


def test_a_teacher_that_lacks_images_is_one_clear_line(folder):
    split = Split(np.array(["/nowhere/a.png", "/nowhere/b.png"], object), np.zeros(2, int))
    sampler = CorpusNegatives(teacher=str(folder / "taught"))
    with pytest.raises(ValueError, match="has no embedding of 2 of 2 training images, for example /nowhere/a.png."):
        sampler.bind_split(split)
    with pytest.raises(ValueError, match="needs a dataset of image files with different paths"):
        sampler.bind_split(Split(np.array([b"a\0", b"b\0"], object), np.zeros(2, int)))
    with pytest.raises(ValueError, match="needs a dataset of image files with different paths"):
        sampler.bind_split(Split(np.array(["/a.png", "/a.png"], object), np.zeros(2, int), boxes=np.ones((2, 4), int)))
    flags = [*train_flags(folder / "run"), f"--sampler=corpus_negatives(pairs=2, teacher='{folder}/photos')"]
    answer = run("tfdml.train", *flags, "--dataset=folder(test_classes=0.3)", f"--data_dir={folder}/photos")
    assert_one_error(answer, f"{folder}/photos is not a folder of tfdml embeddings")
    assert "hold out fewer" not in answer.stderr
    sampler = CorpusNegatives(pairs=2, teacher="somewhere")
    sampler.bind(LABELS)
    with pytest.raises(ValueError, match="needs a split with the paths of images"):
        sampler.refresh(EMBEDDINGS)


def test_what_cannot_be_is_told():
    with pytest.raises(ValueError, match=r"corpus_negatives\(ranks=\(3, 3\)\) has no candidates"):
        CorpusNegatives(ranks=(3, 3)).bind(LABELS)
    with pytest.raises(ValueError, match="at most 30 images of other classes. Set ranks such as"):
        CorpusNegatives(ranks=(30, 100)).bind(LABELS)
    CorpusNegatives(pairs=2, ranks=(29, 100)).bind(LABELS)
    with pytest.raises(ValueError, match=r"corpus_negatives\(pairs=800\) needs"):
        CorpusNegatives(pairs=800).bind(LABELS)
    with pytest.raises(ValueError, match="does not work within clusters, because its negatives are from the whole"):
        WithinClusters(CorpusNegatives())
    with pytest.raises(ValueError, match="ranks"):
        CorpusNegatives(ranks=(5, 3))


PAGE = (ROOT / "docs/training.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("### Hard negatives of the whole training set") :].split("\n## ")[0]


@pytest.mark.nightly
def test_the_command_of_the_page_trains(folder, tmp_path):
    import re
    import shlex

    teach, train = [shlex.split(line)[2:] for line in SECTION.splitlines() if line.startswith("python -m tfdml.")]
    assert teach == ["tfdml.embed", "--model=pretrained", "--images=photos", "--out=embedded"]
    module, *flags = train
    flags = [re.sub(r"=(photos)$", rf"={folder}/\1", flag) for flag in flags]
    flags = [flag.replace("'embedded'", f"'{folder}/taught'").replace("pairs=32", "pairs=2") for flag in flags]
    flags = [flag.replace("=runs/", f"={tmp_path}/runs/") for flag in flags]
    small = [flag for flag in MODEL_FLAGS if not flag.startswith("--sampler")]
    ok(module, *small, "--dataset=folder(test_classes=0.3)", *flags, "--epochs=2", "--steps_per_epoch=2")


@pytest.mark.nightly
def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    from tests.run_helpers import result

    more = ["--sampler=corpus_negatives(pairs=3, neighbors=3, ranks=(0, 20))", "--epochs=3", "--steps_per_epoch=3"]
    ok("tfdml.train", *train_flags(tmp_path / "whole", *more))
    ok("tfdml.train", *train_flags(tmp_path / "part", *more, "--epochs=2"))
    ok("tfdml.train", *train_flags(tmp_path / "part", *more))
    assert result(tmp_path / "whole")["metrics"] == result(tmp_path / "part")["metrics"]


def test_the_table_of_the_page_is_the_record():
    assert study.table(json.loads(study.RECORD.read_text())) in SECTION
