"""Imports the modules that register parts: those of a package, and those of a user."""

import functools
import importlib
import pkgutil


def import_modules(modules):
    """Imports the user's modules of `--import_modules`, which register their parts."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            where = " Python searches the working directory and PYTHONPATH."
            raise ImportError(
                f"The module {module} of import_modules cannot be imported: {type(error).__name__}: {error}."
                f"{where if isinstance(error, ModuleNotFoundError) else ''}"
            ) from error


@functools.cache
def import_room(name):
    """Imports a package and all its modules, so that a new file is found without being listed.

    Args:
        name: full name of a package, or of a single module.
    """
    room = importlib.import_module(name)
    for module in pkgutil.iter_modules(room.__spec__.submodule_search_locations or ()):
        importlib.import_module(f"{name}.{module.name}")
