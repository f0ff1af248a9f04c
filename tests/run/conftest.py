"""Fixtures for tests of runs."""

import pytest

from tfdml.run.directory.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "runs" / "one")
