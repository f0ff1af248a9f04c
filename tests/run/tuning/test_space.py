"""The settings that a search tries."""

import pytest

from tfdml import registry
from tfdml.console import flags
from tfdml.console.flags import RECIPE
from tfdml.run.tuning.state import SPACE, draw

FIRST = flags.resolve([f"--{name}={value}" for name, value in RECIPE.items()])


def test_draws_are_random_and_each_comes_once():
    drawn = draw(FIRST, [], seed=0)
    assert len(drawn) == 6 * 3 * 2 * 3 * 3 - 1
    assert len({tuple(sorted(each.items())) for each in drawn}) == len(drawn)
    # The recipe itself is the first trial.
    assert {} not in drawn
    assert draw(FIRST, [], seed=0) == drawn != draw(FIRST, [], seed=1)
    losses = [each.get("loss", FIRST["loss"]) for each in drawn[:60]]
    assert {losses.count(loss) > 2 for loss in set(losses)} == {True} and len(set(losses)) == 6


def test_a_draw_says_only_what_it_changes():
    (changes,) = [each for each in draw(FIRST, [], seed=0) if "proxy_nca" in each.get("loss", "") and len(each) == 2]
    assert changes == {"loss": "--loss=proxy_nca(scale=16.0)", "lr_multipliers": "--lr_multipliers=loss=100"}


def test_given_flags_stay():
    drawn = draw(FIRST, ["loss", "image_size"], seed=0)
    assert len(drawn) == 3 * 2 * 3 - 1 and not any({"loss", "image_size"} & set(each) for each in drawn)
    assert not any("lr_multipliers" in each for each in draw(FIRST, ["lr_multipliers"], seed=0))
    assert draw(FIRST, list(SPACE), seed=0) == []


@pytest.mark.parametrize("kind, flag", [("loss", "loss"), ("optimizer", "optimizer")])
def test_what_is_tried_can_be_made(kind, flag):
    for choice in SPACE[flag]:
        registry.create(kind, choice[flag], classes=4, learning_rate=0.1)
    assert RECIPE[flag] in [choice[flag] for choice in SPACE[flag]]


def test_every_choice_is_a_flag_of_training():
    for choices in SPACE.values():
        for choice in choices:
            flags.resolve([f"--{name}={value}" for name, value in choice.items()])
