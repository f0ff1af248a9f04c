"""The command of the studies that the docs are made of."""

from benchmarks.study import arguments_of
from tests.commands import Command, assert_one_error


def test_a_study_is_named_by_its_file():
    given = ["lifted", "configs/a.flags", "--row=lifted", "--seeds=0"]
    assert arguments_of(given) == ["benchmarks.studies.rows.lifted", *given[1:]]


def test_it_is_the_command_of_all_studies():
    done = Command("benchmarks.study", "lifted", "--metrics=nmi").wait()
    assert_one_error(done, "--metrics has no effect here, because benchmarks.studies.rows.lifted defines its own table")
