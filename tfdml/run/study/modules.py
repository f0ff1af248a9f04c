"""Studies that modules declare."""

import importlib
import importlib.util
import re
from pathlib import Path

from tfdml.run.study.declaration import Study


def declared_by(name):
    """Returns the `Study` that a module declares as `STUDY`; None if the name is that of a file, or of no module.

    Args:
        name: what the command line has, such as `my_study` or `configs/a.flags`.
    """
    if Path(name).is_file() or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) or not _is_module(name):
        return None
    found = vars(importlib.import_module(name)).get("STUDY")
    if not isinstance(found, Study):
        raise ValueError(f"Expected the module {name} to declare STUDY, a Study of tfdml.run.study.declaration.")
    return found


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        # Its package, of a name with dots.
        return False
