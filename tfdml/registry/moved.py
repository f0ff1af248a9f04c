"""Modules that have moved: the old names give what the new ones have, with a warning."""

import importlib
import sys
import types
import warnings


def hand_on(old, new):
    """Makes a module importable under the name that it had before.

    Args:
        old, new: full names of modules; the package of `old` is imported.
    """
    sys.modules[old] = _Moved(old, new)
    package, _, name = old.rpartition(".")
    vars(sys.modules[package]).setdefault(name, sys.modules[old])


class _Moved(types.ModuleType):
    def __init__(self, old, new):
        super().__init__(old, f"Moved to `{new}`.")
        self._new = new

    def __getattr__(self, name):
        # Python asks for such names while it imports.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        warnings.warn(f"{self.__name__} has moved to {self._new}.", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(self._new), name)
