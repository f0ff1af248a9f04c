"""Flags without effect are told."""

import pytest

from tests.run.parsed_flags import parsed
from tfdml.run.training.unused_flags import unused_flags


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--evaluate_on=validation", "--validation_classes=0.3", "--validation_seed=4"),
        ("--evaluate_on=validation", "--folds=4", "--fold=1", "--validation_seed=4"),
        ("--validation_seed=4",),
        ("--meta_classes=5", "--meta_classes_of=images"),
        ("--validation_classes=0.2", "--validation_seed=-1", "--meta_classes_of=classes"),
    ],
)
def test_flags_with_an_effect_and_defaults_are_not_told(arguments):
    assert unused_flags(parsed(*arguments)[0]) == []


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("--validation_classes=0.3",), "--validation_classes=0.3 has no effect: it needs --evaluate_on=validation"),
        (("--evaluate_on=validation", "--folds=4", "--validation_classes=0.3"), "without --folds."),
        (("--meta_classes_of=images",), "--meta_classes_of=images has no effect: it needs --meta_classes."),
    ],
)
def test_each_flag_without_an_effect_is_told(arguments, sentence):
    (found,) = unused_flags(parsed(*arguments)[0])
    assert sentence in found
