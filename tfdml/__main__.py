"""Lists the commands, or runs one: `tfdml train ...` is `python -m tfdml.train ...`."""

import ast
import difflib
import os
import re
import sys
from pathlib import Path

COMMANDS = ("train", "tune", "evaluate", "report", "compare", "study", "ensemble", "export", "share", "embed")
COMMANDS += (
    "index",
    "search",
    "serve",
    "cluster",
    "convert_weights",
    "show",
    "threshold",
    "suspects",
    "drift",
    "suggest",
)
ASKING = ((), ("--help",), ("-h",), ("help",))


def main():
    """Runs the command that the first argument names; without arguments, prints a list of the commands."""
    name, others = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if tuple(sys.argv[1:]) in ASKING:
        print(listing())
    elif name in COMMANDS:
        # In this process, so that Ctrl-C and the exit status are the command's own.
        os.execv(sys.executable, [sys.executable, "-m", f"tfdml.{name}", *others])
    else:
        meant = "".join(f" Did you mean {each!r}?" for each in difflib.get_close_matches(name, COMMANDS, n=1))
        sys.exit(f"Error: Unknown command {name!r}.{meant} The commands are: {', '.join(COMMANDS)}.")


def listing():
    """Returns how to run a command, and one line per command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary(name)}" for name in COMMANDS]
    return "\n".join(
        [
            "tfdml: deep metric learning for TensorFlow and Keras 3.",
            "",
            "Usage: tfdml COMMAND [--flag=value ...], or python -m tfdml.COMMAND [--flag=value ...]",
            "",
            *lines,
            "",
            "For the flags of a command, run tfdml COMMAND --help. To check or pack a dataset, run python -m "
            "pipelines.check or python -m pipelines.pack.",
        ]
    )


def summary(name):
    """Returns the first sentence of a command's docstring, without importing it, which would define its flags."""
    text = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")))
    return re.match(r"(.*?)[:.](\s|$)", text, re.DOTALL)[1]


if __name__ == "__main__":
    main()
