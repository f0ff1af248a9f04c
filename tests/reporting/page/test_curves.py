"""Curves as SVG."""

import re
from importlib import resources

import numpy as np
import pytest

from tfdml.reporting.page import (
    COLORS,
    DASHES,
    HEIGHT,
    LEFT,
    MARKED,
    MOST_POINTS,
    RIGHT,
    TOP,
    WIDTH,
    _ticks,
    curve_figures,
)
from tfdml.run.directory.run_directory import MOST_GROUPS


def points(text):
    return [
        [tuple(map(float, each.split(","))) for each in line.split()] for line in re.findall(r'points="(.*?)"', text)
    ]


def test_a_rising_curve_rises_from_left_to_right():
    made = curve_figures({"loss": {"my_run": ([0, 5, 10], [0.0, 0.5, 1.0])}})
    (curve,) = points(made)
    assert curve[0] == (LEFT, HEIGHT - 42) and curve[-1] == (WIDTH - RIGHT, TOP)
    assert curve[1] == ((curve[0][0] + curve[2][0]) / 2, (curve[0][1] + curve[2][1]) / 2)
    assert 'aria-label="loss by step. my_run: 0 at step 0, 1 at step 10."' in made
    assert made.count("<circle") == 3 and "<title>step 5: 0.5</title>" in made and "legend" not in made


def test_a_nearly_constant_curve_is_in_the_middle():
    (curve,) = points(curve_figures({"loss": {"run": ([0, 1], [1000.0, np.nextafter(1000, 2000)])}}))
    assert curve[0][1] == curve[1][1] and TOP < curve[0][1] < HEIGHT - 42


def test_several_curves_have_a_legend_and_differ_by_more_than_color():
    made = curve_figures({"a": {"x<y": ([1, 2], [1.0, 2.0]), "b": ([1, 2], [2.0, 3.0])}})
    assert "x&lt;y" in made and "x<y" not in made
    for style in ("curve s0 d0", "curve s1 d1", "key curve s1 d1"):
        assert made.count(f'class="{style}"') == 1


def test_as_many_curves_as_a_page_compares_can_be_told_apart():
    made = curve_figures({"a": {f"run {number}": ([1, 2], [1.0, number]) for number in range(MOST_GROUPS)}})
    lines = re.findall(r'<g class="(.*?)"', made)
    assert len(set(lines)) == MOST_GROUPS and re.findall(r'class="key (.*?)"', made) == lines
    style = resources.files("tfdml.reporting").joinpath("templates", "page.css").read_text(encoding="utf-8")
    dark_and_print = [style.split("color-scheme: dark")[1], style.split("@media print")[1]]
    for color in range(COLORS):
        assert f".s{color} {{ --c: var(--s{color}); }}" in style
        assert all(f"--s{color}: #" in part for part in dark_and_print)
    dashes = dict(re.findall(r"\.d(\d) { stroke-dasharray: ([\d ]+); }", style))
    assert sorted(map(int, dashes)) == list(range(1, DASHES)) and len(set(dashes.values())) == len(dashes)


def test_what_is_no_number_is_left_out_and_charts_without_any_too():
    gaps = {"a": ([0, 1, 2], [1.0, float("nan"), 3.0])}
    assert len(points(curve_figures({"gaps": gaps}))[0]) == 2
    nothing = {"b": {"a": ([0], [float("inf")])}, "c": {}}
    assert curve_figures(nothing) is None and "<figcaption>b" not in curve_figures({**nothing, "gaps": gaps})


def test_equal_values_and_a_single_point_can_be_drawn():
    for steps, values in (([0], [0.0]), ([0], [3.0]), ([4, 8], [2.0, 2.0]), ([1], [-1e-7])):
        (curve,) = points(curve_figures({"a": {"b": (steps, values)}}))
        assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - 42 for x, y in curve)


@pytest.mark.slow
def test_long_curves_are_thinned_and_keep_their_ends():
    steps = list(range(10_001))
    made = curve_figures({"a": {"b": (steps, [float(step) for step in steps])}})
    (curve,) = points(made)
    assert MARKED < len(curve) <= MOST_POINTS + 1 and curve[-1] == (WIDTH - RIGHT, TOP) and "<circle" not in made


@pytest.mark.parametrize("low, high", [(0, 1), (0.13, 0.1301), (-3, 4e6), (0, 7)])
def test_ticks_are_round_and_around_all_values(low, high):
    ticks = _ticks(low, high, 5)
    steps = {round((b - a) / (high - low), 6) for a, b in zip(ticks, ticks[1:], strict=False)}
    assert ticks[0] <= low + 1e-9 and ticks[-1] >= high * (1 - 1e-9) and len(steps) == 1 and 3 <= len(ticks) <= 8
