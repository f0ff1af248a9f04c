"""The list of all parts that a run can have, and of the recipes that combine them."""

import re
from pathlib import Path

from tfdml import registry
from tfdml.console.flagfiles import recipes, recipes_folder


def print_parts(modules):
    """Prints the parts of every kind, with their arguments, and the flagfiles of recipes.

    Args:
        modules: the user's own, which register parts.
    """
    registry.import_modules(modules)
    parts = {kind: registry.describe(kind) for kind in registry.ROOMS}
    parts["flagfile"] = [f"configs/{name}: {_about(Path(recipes_folder(), name))}" for name in recipes()]
    print("\n".join(line for kind, lines in parts.items() for line in [f"{kind}:", *(f"  {each}" for each in lines)]))


def _about(path):
    """Returns the beginning of the comment of a flagfile, down to the first period or colon."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = " ".join(line[2:] for line in lines if line.startswith("# "))
    return re.match(r"(.*?)([:.]\s|$)", text)[1].rstrip(".")
