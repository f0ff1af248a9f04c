"""The fuzz notices code that runs, hangs, memory, files that are used, and wrong errors and results."""

import pytest

from tests.fuzz.faulty_targets import FAULTS
from tests.fuzz.test_fuzz import wrong
from tests.fuzz.watched import Watched

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    with Watched("tests.fuzz.faulty_targets", tmp_path_factory.mktemp("faulty")) as reader:
        yield reader


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault, watched, tmp_path):
    found = wrong(watched.read(fault, tmp_path), expected="0", noticed=True)
    assert found is not None and fault.replace("two lines", "two\nlines") in found


def test_the_process_goes_on_after_a_fault(watched, tmp_path):
    assert watched.read("died", tmp_path)["expected"] is False
    assert watched.read("another result", tmp_path)["result"] == "1"
