import re

import pytest

from tfdml.console.settings import Settings
from tfdml.run.experiment.length import Length, late_rise


def length(batches=10, **given):
    settings = Settings().replace(**{"epochs": 20, **given})
    return Length.of(settings.length, settings.evaluation, batches)


@pytest.mark.parametrize(
    "given, batches, steps_per_epoch, epochs",
    [
        ({}, 9, 9, 20),
        ({"steps_per_epoch": 50, "epochs": 3}, 9, 50, 3),
        # Fewer images than a batch.
        ({}, 0, 1, 20),
        ({"steps": 2000}, 9, 8, 250),
        ({"steps": 2000}, 310, 250, 8),
        ({"steps": 2000}, 9999, 2000, 1),
        ({"steps": 2000, "steps_per_epoch": 40}, 9, 40, 50),
        # Only 1 and 7 divide it.
        ({"steps": 7}, 3, 1, 7),
        # 1 is nearer, but epochs of one step would be saved all the time.
        ({"steps": 13}, 5, 13, 1),
        # 2,000 steps where nothing is said, or about as many.
        ({"epochs": 0}, 9, 8, 250),
        ({"epochs": 0, "steps_per_epoch": 30}, 9, 30, 67),
        ({"epochs": 0, "steps_per_epoch": 5000}, 9, 5000, 1),
    ],
)
def test_epochs_are_equally_long_and_make_the_steps(given, batches, steps_per_epoch, epochs):
    found = length(batches, **given)
    assert (found.steps_per_epoch, found.epochs, found.steps) == (steps_per_epoch, epochs, steps_per_epoch * epochs)


def test_steps_that_epochs_do_not_divide_are_told():
    with pytest.raises(ValueError, match="--steps=100 must be a multiple of --steps_per_epoch=30"):
        length(9, steps=100, steps_per_epoch=30)


@pytest.mark.parametrize("steps, instead", [(2003, 1980), (5006, 4980)])
def test_steps_without_epochs_of_about_a_pass_over_the_images_are_told(steps, instead):
    with pytest.raises(ValueError, match=f"--steps={steps} cannot be divided .* 60 steps.* Use --steps={instead}"):
        length(60, steps=steps)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, (1, "epochs")),
        ({"epochs": 0}, (200, "steps")),
        ({"steps": 500}, (50, "steps")),
        # The last step is always evaluated.
        ({"steps": 106, "steps_per_epoch": 53}, (53, "steps")),
        ({"steps": 7}, (1, "steps")),
        ({"steps": 2003, "steps_per_epoch": 2003}, (2003, "steps")),
        ({"steps": 500, "eval_every": 2}, (2, "epochs")),
        ({"eval_every": 3, "eval_unit": "steps"}, (3, "steps")),
        # Longer than the run.
        ({"epochs": 1, "eval_every": 2}, (1, "epochs")),
        ({"epochs": 3, "eval_every": 50, "eval_unit": "steps"}, (30, "steps")),
    ],
)
def test_evaluations_end_with_the_last_step(given, expected):
    assert length(**given).evaluations == expected


@pytest.mark.parametrize(
    "patience, split, expected",
    [(-1, "validation", 5), (-1, "test", None), (0, "validation", None), (3, "validation", 3), (3, "test", 3)],
)
def test_a_run_stops_early_on_validation_classes(patience, split, expected):
    found = length(patience=patience, evaluate_on=split)
    assert found.patience == expected
    assert found.patience_from == (found.steps / 5 if patience < 0 else 0)


@pytest.mark.parametrize(
    "recalls, told",
    [
        ([0.1, 0.3, 0.4, 0.45, 0.5], "Recall@1 still rose by 5.0 points in .* for example, --steps=80"),
        ([0.1, 0.3, 0.4, 0.45, 0.455], None),
        # The best of the last quarter counts, not its last.
        ([0.1, 0.5, 0.4, 0.42, 0.45], None),
        ([0.1], None),
    ],
)
def test_a_run_that_ends_while_it_still_gets_better_is_told(recalls, told):
    history = [{"step": 10 * place, "metrics": {"recall_at_1": recall}} for place, recall in enumerate(recalls)]
    found = late_rise(history, "recall_at_1")
    assert found is None if told is None else re.search(told, found)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"evaluate_on": "test"}, "200 steps (20 epochs of 10 steps), evaluated on the test set every epoch."),
        # Evaluation cannot be left out.
        (
            {"evaluate_on": "test", "epochs": 1, "eval_every": 0},
            "10 steps (1 epoch of 10 steps), evaluated on the test set every epoch.",
        ),
    ],
)
def test_the_plan_of_a_run(given, expected):
    assert length(**given).in_words(given["evaluate_on"]) == expected
