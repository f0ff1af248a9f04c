"""Groups of runs on the page that compares them."""

import pytest

from tfdml.reporting.reports import mean_curve, merged
from tfdml.run.directory.run_directory import groups_of


def test_each_run_is_a_group_unless_groups_are_given():
    assert groups_of("a,b") == [["a"], ["b"]] and groups_of("a, b,c", 3) == [["a"], ["b"], ["c"]]
    assert groups_of("a0,a1:b") == [["a0", "a1"], ["b"]] and groups_of("a:b,c:d", 3)[1] == ["b", "c"]


@pytest.mark.parametrize("text", ["", "a", "a:", ":a", "a,:b", "a:b,,c", "a,b,c:d:e:f"])
def test_malformed_groups(text):
    with pytest.raises(ValueError, match="Expected --run_dirs=A,B, or several of each as A0,A1:B0,B1, of up to 3 gr"):
        groups_of(text, 3)


def test_a_run_is_in_one_group_once():
    with pytest.raises(ValueError, match="Expected different runs in --run_dirs, received a more than once"):
        groups_of("a,b:c,a")


def test_curves_of_seeds_become_their_mean_where_all_have_been():
    assert mean_curve([([0, 5, 10], [0.0, 0.5, 1.0]), ([0, 5, 10, 15], [1.0, 0.7, 0.0, 9.0])]) == (
        [0, 5, 10],
        [0.5, pytest.approx(0.6), 0.5],
    )
    assert mean_curve([([0], [1.0]), ([5], [1.0])]) == ([], [])


def test_flags_of_seeds_stand_beside_each_other():
    several = [{"loss": "margin", "seed": 0}, {"loss": "margin", "seed": 1}, {"loss": "margin", "seed": 1}]
    assert merged(several) == {"loss": "margin", "seed": "0, 1"}
