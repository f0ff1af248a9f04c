"""The list of all components that a run can use, and of the configurations that combine them."""

import re
from pathlib import Path

from tfdml import registry
from tfdml.console.flags import recipes, recipes_folder


def parts_list(modules):
    """Returns, by kind, one line per component with its arguments, and one line per flagfile in `configs`.

    The user's modules are imported first, because they register components.
    """
    registry.import_modules(modules)
    parts = {kind: registry.describe(kind) for kind in registry.ROOMS}
    parts["flagfile"] = [f"configs/{name}: {_first_sentence(Path(recipes_folder(), name))}" for name in recipes()]
    return parts


def _first_sentence(path):
    """Returns the start of a flagfile's comment, up to the first period or colon."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = " ".join(line[2:] for line in lines if line.startswith("# "))
    return re.match(r"(.*?)([:.]\s|$)", text)[1].rstrip(".")
