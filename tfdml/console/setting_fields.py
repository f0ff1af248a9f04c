"""Fields of settings, each of which is a flag."""

import dataclasses
from typing import Annotated

# The value is absolute, see `PathParser`.
AbsolutePath = Annotated[str, "a path"]
# See `SizeParser`.
ImageSize = Annotated[int | tuple[int, int], "a side, or height and width"]


def flag(default, help_text, **bounds):
    """Returns the field of a setting, which is a flag of the same name.

    Args:
        default: its default.
        help_text: what `--help` says.
        **bounds: `lower_bound` and `upper_bound` of a number; `valid`, a function that tells whether a value is valid,
            with the sentence of the error.
    """
    return dataclasses.field(default=default, metadata={"help": help_text, **bounds})


def topic(heading, settings):
    """Returns the field of the settings of a topic, which `--help` shows below a heading."""
    return dataclasses.field(default=settings, metadata={"heading": heading})
