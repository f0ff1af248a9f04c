"""A kind of files that the project reads: how they are made, changed and read."""

import dataclasses
from collections.abc import Callable, Mapping

from tests.fuzz import damage
from tests.fuzz.hostile_files import change_array, change_parquet, change_zip
from tests.fuzz.hostile_texts import change_json, change_line

JSON, LINES, ZIP = (change_json, *damage.ANY), (change_line, *damage.LINES), (change_zip, *damage.ANY)
TABLE, ARRAY = (change_parquet, *damage.ANY), (change_array, *damage.ANY)


@dataclasses.dataclass(frozen=True)
class Target:
    """Files of one kind, which `make(folder)` writes."""

    make: Callable
    # From the folder to what is in the files; its text says whether a number has changed.
    read: Callable
    # Pattern of names to the functions that change such files on purpose.
    hostile: Mapping
    # Patterns of files whose damage is always noticed, because a checksum is kept of them.
    checked: tuple = ()
    # Whether errors name the file.
    named: bool = True
