"""Says which name was meant, where there is none of that name, or where a module has it."""

import difflib
import re
import sys
import types


def nearest(word, known):
    """Returns a suggestion for an unknown word, or an empty string if no known word is similar."""
    found = _closest(word, known)
    return f" Did you mean {found!r}?" if found else ""


def meant(name, *modules):
    """Returns a suggestion for a name that a module has not, with the module that has it; or an empty string.

    Args:
        name: the name.
        *modules: where it may stand: names in their `__all__`, and those in their `INSTEAD`, which are other packages',
            with what to write here.
    """
    written = {}
    for module in map(vars, reversed(modules)):
        own = {each: each for each in module.get("__all__", ())} | module.get("INSTEAD", {})
        written |= {each: f"{module['__name__']}.{text}" for each, text in own.items()}
    found = None if name.startswith("_") else _closest(name, written)
    return f" Did you mean {written[found]}?" if found else ""


def guide(*packages):
    """Makes packages, and the modules in them, say which name was meant."""
    for package in packages:
        inside = f"{package.__name__}."
        for module in [package, *(module for name, module in list(sys.modules.items()) if name.startswith(inside))]:
            module.__class__ = Guide


class Guide(types.ModuleType):
    """A module whose errors say which of its names was meant, and which class where it is called itself."""

    def __getattr__(self, name):
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}.{meant(name, self)}")

    def __call__(self, *args, **kwargs):
        package, _, name = self.__name__.rpartition(".")
        raise TypeError(f"{self.__name__} is a module, not a class.{meant(name, sys.modules[package])}")


def same(word, known):
    """Returns the known word that differs in capitals, hyphens and the like alone; None without any."""
    simple = {}
    for each in known:
        # Of a class and a function of one name the first, which is the class.
        simple.setdefault(_simple(each), each)
    return simple.get(_simple(word))


def _closest(word, known):
    """Returns the known word that is the same but for spelling, or else the most similar one; None without any."""
    return same(word, known) or next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def _simple(name):
    return re.sub(r"[-_ ]", "", name.lower()).removesuffix("loss")
