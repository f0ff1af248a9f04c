"""Names and values of metrics as people read them."""

import pytest

from tfdml.console import scores


@pytest.mark.parametrize(
    "name, value, shown",
    [
        ("recall_at_1", 0.7213, "72.1%"),
        ("map_at_r", 1.0, "100.0%"),
        ("r_precision_of_family", 0.5, "50.0%"),
        ("tar_at_far_1e-5", 0.25, "25.0%"),
        ("map_trapezoid", 0.5, "50.0%"),
        ("nmi", 0.6527, "0.653"),
        ("pair_accuracy_threshold", 0.5, "0.500"),
        ("my_recall_at_1", 0.5, "0.500"),
        ("recall_at_1", None, "-"),
    ],
)
def test_shares_are_percentages(name, value, shown):
    assert scores.score(name, value) == shown


def test_differences_are_points():
    assert scores.difference("recall_at_1", 0.0441) == "+4.4 points"
    assert scores.difference("nmi", -0.01) == "-0.010"
    assert scores.interval("recall_at_1", [-0.009, 0.0144], sign="+") == "-0.9 to +1.4"
    assert scores.interval("nmi", [0.5, 0.75]) == "0.500 to 0.750"
