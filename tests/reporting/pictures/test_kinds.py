"""Pictures of a run."""

import functools
from types import SimpleNamespace

import numpy as np
from PIL import Image

import tfdml
from tfdml.console.progress_bar import ProgressBar
from tfdml.evaluation.search import Search
from tfdml.registry import create
from tfdml.reporting import subject as subject_file
from tfdml.reporting.pictures.kinds import PICTURES
from tfdml.reporting.subject import Subject, looked_up


def test_the_searches_of_all_learners_tell_how_far_they_are(tmp_path, monkeypatch, capsys):
    labels = np.repeat(np.arange(3), 4)
    embeddings = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    search = Search.of(labels)
    subject = SimpleNamespace(embeddings=embeddings, search=search, learner_count=2)
    subject.retrieved = looked_up(embeddings, search, 1)
    capsys.readouterr()
    monkeypatch.setattr(subject_file, "ProgressBar", functools.partial(ProgressBar, every=0.0))
    assert PICTURES["recall"].draw(subject, tmp_path) == [tmp_path / "recall.png"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["12/24 lookups", "24/24 lookups"] * 2


def test_attention_is_drawn_for_models_that_have_it(tmp_path):
    backbone = tfdml.backbones.Small(width=2, stages=2)
    method = "attention_ensemble(learners=2, branch='stage1', attention_depth=1)"
    model = create("method", method, backbone=backbone, embedding_size=4)
    images = np.random.default_rng(0).normal(size=(9, 16, 16, 3)).astype(np.float32)
    subject = Subject(SimpleNamespace(splits=SimpleNamespace(test=images)), model, None, {})
    # In place of images from files.
    object.__setattr__(subject, "inputs", lambda rows: images[rows])
    attention = PICTURES["attention"]
    assert attention.can_be_drawn(subject)
    (path,) = attention.draw(subject, tmp_path)
    with Image.open(path) as all_learners:
        width = all_learners.width
    attention.draw(subject, tmp_path, learners=[1])
    with Image.open(path) as one:
        assert one.width < width
    other = create("method", "single", backbone=backbone, embedding_size=4)
    assert not attention.can_be_drawn(SimpleNamespace(model=other))
