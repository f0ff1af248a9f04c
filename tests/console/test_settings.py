"""Settings by topic, of which flags are made."""

import dataclasses

import pytest
from absl import flags as absl_flags

from tfdml.console import flags
from tfdml.console.settings import ImageSettings, Settings


def test_a_value_is_replaced_by_the_name_of_its_flag():
    settings = Settings()
    changed = settings.replace(cache="bytes", seed=3, metrics=["map", "mrr"])
    assert (changed.images.cache, changed.run.seed, changed.evaluation.metrics) == ("bytes", 3, ("map", "mrr"))
    assert changed.images == ImageSettings(cache="bytes") and changed.data == settings.data
    assert settings == Settings() != changed
    assert changed.replace(cache="none", seed=0, metrics=()) == settings


def test_a_name_that_is_no_flag_is_told():
    with pytest.raises(TypeError, match="Expected names of flags, received cachee, sede."):
        Settings().replace(seed=3, sede=3, cachee="none")


def test_settings_stay_as_they_are():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().run.seed = 3


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
