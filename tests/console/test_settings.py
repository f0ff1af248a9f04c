"""Settings by topic, of which flags are made."""

import pytest
from absl import flags as absl_flags

from tfdml.console import flags
from tfdml.console.settings import ImageSettings, Settings, names_with, values_of


def test_a_value_is_replaced_by_the_name_of_its_flag():
    settings = Settings()
    changed = settings.replace(cache="bytes", seed=3, metrics=["map", "mrr"])
    assert (changed.images.cache, changed.run.seed, changed.evaluation.metrics) == ("bytes", 3, ("map", "mrr"))
    assert changed.images == ImageSettings(cache="bytes") and changed.data == settings.data
    assert settings == Settings() != changed
    assert changed.replace(cache="none", seed=0, metrics=()) == settings


def test_a_name_that_is_no_flag_is_told():
    with pytest.raises(TypeError, match="There are no flags with these names: cachee, sede."):
        Settings().replace(seed=3, sede=3, cachee="none")


def test_each_name_has_one_topic_and_the_defaults_are_those_of_the_flags():
    names = [name for topic in flags.topics().values() for name in topic]
    assert sorted(names) == sorted(Settings().values()) and len(names) == len(set(names))
    assert flags.parse("")[0] == Settings()


@pytest.mark.parametrize(
    "text, size", [("0", 0), ("8", 8), ("4096", 4096), ("256x128", (256, 128)), ("7", None), ("4097", None)]
)
def test_a_value_that_is_not_valid_is_refused(text, size):
    if size is not None:
        assert flags.parse(f"--image_size={text}")[0].images.image_size == size
    else:
        with pytest.raises(Exception, match="Expected a side such as 224"):
            flags.parse(f"--image_size={text}")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(absl_flags.IllegalFlagValueError, match=f"--cache_memory={value}: expected a finite number"):
        flags.parse(f"--cache_memory={value}")


@pytest.mark.parametrize("name", ["recipe", "in_trials", "in_opened_run", "on_another_dataset", "among_runs"])
def test_values_among_the_properties_of_flags_are_values_that_they_take(name):
    values = values_of(name)
    settings, _ = flags.parse("\n".join(flags.written(values).values()))
    assert values and {flag: settings.values()[flag] for flag in values} == values


def test_names_with_a_property_are_in_the_order_of_the_settings():
    assert names_with(is_length=True) == ("epochs", "steps", "steps_per_epoch")
    assert names_with(is_in_initial_model=True) == ("backbone", "initial_weights")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), None),
        (("--evaluate_on=validation", "--validation_classes=0.3", "--validation_seed=4"), None),
        (("--evaluate_on=validation", "--folds=4", "--fold=1", "--validation_seed=4"), None),
        (("--validation_seed=4",), None),
        (("--meta_classes=5", "--meta_classes_of=images", "--eval_every=5", "--eval_unit=steps"), None),
        (("--validation_classes=0.2", "--validation_seed=-1", "--meta_classes_of=classes"), None),
        (("--dataset=embeddings(path='a.npz')", "--eval_batch_size=9"), None),
        (
            ("--validation_classes=0.3",),
            "--validation_classes=0.3 has no effect, because it needs --evaluate_on=validation",
        ),
        (("--evaluate_on=validation", "--folds=4", "--validation_classes=0.3"), "without --folds."),
        (("--meta_classes_of=images",), "--meta_classes_of=images has no effect, because it needs --meta_classes."),
        (("--eval_unit=steps",), "--eval_unit=steps has no effect, because it needs --eval_every."),
        (
            ("--dataset=embeddings(path='a.npz')", "--cache=bytes"),
            "--cache=bytes has no effect, because it needs a dataset of",
        ),
    ],
)
def test_flags_without_an_effect_are_told(arguments, words):
    found = flags.parse("\n".join(arguments))[0].without_effect()
    assert found == [] if words is None else len(found) == 1 and words in found[0]
