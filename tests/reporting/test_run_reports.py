"""Drawing the pictures of a run by name."""

import functools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import tfdml
from tfdml.console.progress_bar import ProgressBar
from tfdml.evaluation.queries import RetrievalTask
from tfdml.registry import create
from tfdml.reporting import subject as subject_file
from tfdml.reporting.reports import caption_of, pictures_of
from tfdml.reporting.subject import Subject, looked_up


def test_the_searches_of_all_learners_tell_how_far_they_are(tmp_path, monkeypatch, capsys):
    labels = np.repeat(np.arange(3), 4)
    embeddings = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    task = RetrievalTask.of(labels)
    subject = SimpleNamespace(embeddings=embeddings, task=task, learner_count=2)
    subject.retrieved = looked_up(embeddings, task, 1)
    capsys.readouterr()
    monkeypatch.setattr(subject_file, "ProgressBar", functools.partial(ProgressBar, every=0.0))
    assert create("picture", "recall").draw(subject, tmp_path) == [tmp_path / "recall.png"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["12/24 lookups", "24/24 lookups"] * 2


def test_attention_is_drawn_for_models_that_have_it(tmp_path):
    backbone = tfdml.backbones.Small(width=2, stages=2)
    method = "attention_ensemble(learners=2, branch='stage1', attention_depth=1)"
    model = create("method", method, backbone=backbone, embedding_size=4)
    images = np.random.default_rng(0).normal(size=(9, 16, 16, 3)).astype(np.float32)
    subject = Subject(SimpleNamespace(splits=SimpleNamespace(test=images)), model, None, {})
    # Replaces images from files.
    object.__setattr__(subject, "inputs", lambda rows: images[rows])
    attention = create("picture", "attention")
    assert attention.can_be_drawn(subject)
    (path,) = attention.draw(subject, tmp_path)
    with Image.open(path) as all_learners:
        width = all_learners.width
    create("picture", "attention(learners=(1,))").draw(subject, tmp_path)
    with Image.open(path) as one:
        assert one.width < width
    other = create("method", "single", backbone=backbone, embedding_size=4)
    assert not attention.can_be_drawn(SimpleNamespace(model=other))


def test_pictures_are_drawn_in_the_order_of_the_page_unless_they_are_named():
    found = list(pictures_of([], {}))
    known = "neighbors confused similarity map similarities roc rejection recall training learners clusters attention"
    known = known.split()
    assert [name for name in found if name in known] == known
    found = pictures_of(["recall", "attention", "page", "neighbors(queries=2)"], {"learners": [1]})
    assert list(found) == ["recall", "attention", "neighbors"]
    assert (found["attention"].learners, found["attention"].channels, found["neighbors"].queries) == ((1,), None, 2)
    # A flag that is split at commas passes them like this.
    found = pictures_of(["attention(channels=(1", "2)", "learners=(0", "))", "recall"], {})
    assert list(found) == ["attention", "recall"] and found["attention"].channels == (1, 2)
    with pytest.raises(
        ValueError, match="Unknown picture 'cluster' in --only. Expected one of: neighbors, .*, or page"
    ):
        pictures_of(["cluster"], {})


def test_a_caption_is_the_first_line_of_the_docstring():
    learners = create("picture", "learners")
    assert caption_of("learners", learners, Path("learners.png")).startswith("Score of each learner alone (bars)")
    assert caption_of("learners", learners, Path("pair_cosines.png")).startswith("Cosine similarities of positive")
