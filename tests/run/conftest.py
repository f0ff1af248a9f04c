"""Fixtures for tests of runs."""

import pytest

from tests.run.checkpoints import content
from tfdml.run.directory.checkpoints import CheckpointFolder
from tfdml.run.directory.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "runs" / "one")


@pytest.fixture
def two_checkpoints(tmp_path):
    """A folder with the checkpoints of steps 1 and 2."""
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for step in (1, 2):
        folder.write(step, *content(step))
    return folder
