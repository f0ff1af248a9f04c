"""Runs `python -m tfdml.train` in this process, with changes to what it imports."""

import importlib.machinery
import runpy
import sys


def train(arguments, imported, before=lambda: None):
    """Runs the command with arguments.

    Args:
        arguments: the command's flags.
        imported: function without arguments, called after TensorFlow and the package are imported.
        before: the same, called before.
    """
    sys.argv = ["tfdml.train", *arguments]
    # `import tfdml` uses this to recognize a command, in which it postpones its imports.
    sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec("tfdml.train", None)
    from tfdml.console import startup

    import_package = startup.import_package

    def watched():
        before()
        import_package()
        imported()

    startup.import_package = watched
    runpy.run_module("tfdml.train", run_name="__main__", alter_sys=True)
