"""The list of all parts that a run can have, and of the recipes that combine them."""

import re
from pathlib import Path

from tfdml import registry
from tfdml.console.flags import recipes, recipes_folder


def parts_list(modules):
    """Returns lines on the parts of every kind, with their arguments, and on the flagfiles of recipes, by kind.

    The user's modules are imported first, because they register parts.
    """
    registry.import_modules(modules)
    parts = {kind: registry.describe(kind) for kind in registry.ROOMS}
    parts["flagfile"] = [f"configs/{name}: {_first_sentence(Path(recipes_folder(), name))}" for name in recipes()]
    return parts


def _first_sentence(path):
    """Returns the beginning of the comment of a flagfile, up to the first period or colon."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = " ".join(line[2:] for line in lines if line.startswith("# "))
    return re.match(r"(.*?)([:.]\s|$)", text)[1].rstrip(".")
