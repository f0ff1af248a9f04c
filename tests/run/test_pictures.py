"""Pictures of a run."""

import functools
from types import SimpleNamespace

import numpy as np

from tfdml.evaluation.search import Search
from tfdml.progress_bar import ProgressBar
from tfdml.run import subject as subject_file
from tfdml.run.pictures import PICTURES
from tfdml.run.subject import looked_up


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
