"""Fields of settings, each of which is a flag."""

import dataclasses
import functools
from typing import Annotated

# The value is absolute, see `PathParser`.
AbsolutePath = Annotated[str, "a path"]
# See `SizeParser`.
ImageSize = Annotated[int | tuple[int, int], "a side, or height and width"]


def flag(default, help_text, *, changes_result=True, may_change=False, is_length=False, is_place=False, **bounds):
    """Returns the field of a setting, which is a flag of the same name.

    Args:
        default: its default.
        help_text: what `--help` says.
        changes_result: whether it changes what a run learns, not just how it computes or what it measures.
        may_change: whether a run goes on with another value.
        is_length: whether a complete run goes on with a larger value.
        is_place: whether it says where files are that other machines have elsewhere.
        **bounds: `lower_bound` and `upper_bound` of a number; `valid`, a function that tells whether a value is valid,
            with the sentence of the error.
    """
    properties = {"changes_result": changes_result, "may_change": may_change}
    properties |= {"is_length": is_length, "is_place": is_place}
    return dataclasses.field(default=default, metadata={"help": help_text, "properties": properties, "bounds": bounds})


# Flags that change no result, and of these, those with other values of which a run goes on.
neutral = functools.partial(flag, changes_result=False)
resumable = functools.partial(neutral, may_change=True)


def topic(heading, settings):
    """Returns the field of the settings of a topic, which `--help` shows below a heading."""
    return dataclasses.field(default=settings, metadata={"heading": heading})
