"""Modules of the user, which a run names and which are programs: what only reads the run does not start them."""

import sys


def check_modules(modules, run_dir, trusted=()):
    """Raises a ValueError if a run names modules that nobody but its own folder asks for.

    Args:
        modules: those of the run's `--import_modules`.
        run_dir: path of the run.
        trusted: those that the user names, too. Modules that she has imported need no name.
    """
    missing = [module for module in modules if module not in trusted and sys.modules.get(module) is None]
    if missing:
        named = ",".join(missing)
        raise ValueError(
            f"The run in {run_dir} was trained with --import_modules={named}, and a run that somebody sent could name "
            f"any program. If you trust it, give --import_modules={named} again; in Python import the module first, or "
            "give trust=True."
        )
