"""What a field of the settings declares about its flag, in addition to name, type and default."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any

# `PathParser` makes the value absolute.
AbsolutePath = Annotated[str, "a path"]
# Parsed by `SizeParser`.
ImageSize = Annotated[int | tuple[int, int], "a side, or height and width"]


@dataclasses.dataclass(frozen=True)
class Need:
    """Something that a flag needs in order to have an effect."""

    # What is needed, for messages.
    words: str
    # Whether the `Settings` of a run have it. None if this is only known after the backbone is loaded.
    is_met: Callable[[Any], bool] | None = None


@dataclasses.dataclass(frozen=True)
class Flag:
    """The properties of a flag, except for its name, type and default.

    A property that replaces the value of the flag in some situation is None if the value is not replaced.

    Args:
        help: text for `--help`.
        changes_result: whether it changes what a run learns, rather than how it computes or what it measures.
        may_change: whether a run can resume with another value.
        is_length: whether a complete run can continue with a larger value.
        is_place: whether it is the location of files, which can differ between machines.
        is_of_network: whether it configures the network that embeds images, which stored features do not need.
        is_in_initial_model: whether `--initial_model` determines it, so that it must not be set.
        is_exported: whether `tfdml.export --backbone` uses it as well.
        is_of_validation: whether it determines the training classes that are held out for validation.
        needs: the `Need` without which it has no effect.
        recipe: its value in the default configuration for photos.
        in_trials: its value in the trials of a search, which must not stop early and need no extra outputs.
        why_not_searched: why a search ignores it, such as "--steps is the length of the longest trials".
        in_opened_run: its value when a command opens a trained run.
        on_another_dataset: its value when the model of a run is measured on another dataset.
        among_runs: its value when a command opens several runs, because TensorFlow is configured only once.
        optimizer_argument: the optimizer argument that it sets.
        lower_bound, upper_bound: bounds of a number.
        valid: function that returns whether a value is valid, and the error message for invalid values.
    """

    help: str
    _: dataclasses.KW_ONLY
    changes_result: bool = True
    may_change: bool = False
    is_length: bool = False
    is_place: bool = False
    is_of_network: bool = False
    is_in_initial_model: bool = False
    is_exported: bool = False
    is_of_validation: bool = False
    needs: Need | None = None
    recipe: Any = None
    in_trials: Any = None
    why_not_searched: str | None = None
    in_opened_run: Any = None
    on_another_dataset: Any = None
    among_runs: Any = None
    optimizer_argument: str | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    valid: tuple[Callable[[Any], bool], str] | None = None


def flag(default, help_text, **properties):
    """Returns a field that defines a flag of the same name, with properties of `Flag`."""
    return dataclasses.field(default=default, metadata={"flag": Flag(help_text, **properties)})


# Flags that do not change the result, and those of them that may change when a run resumes.
neutral = functools.partial(flag, changes_result=False)
resumable = functools.partial(neutral, may_change=True)


def topic(heading, settings):
    """Returns the field for the settings of a topic, with its heading in `--help`."""
    return dataclasses.field(default=settings, metadata={"heading": heading})
