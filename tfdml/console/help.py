"""Text of `--help`: the flags of a command by topic, with their defaults."""

import re
import textwrap

from tfdml.console.flags import topics

WIDTH = 100
# Replaces absl's `--help`, which only lists the flags of one file. `--helpfull` stays absl's.
ASKED_BY = ("--help", "-help", "-?", "--helpshort", "-helpshort")


def help_text(about, command, arguments, values, own):
    """Returns the help text of a command.

    Args:
        about: docstring of its module.
        command: its command line, such as `python -m tfdml.train`.
        arguments: name of its positional arguments, such as `FLAGFILE...`; may be empty.
        values: absl `FlagValues`.
        own: names that absl gives to the modules that define its flags.
    """
    parts = [about.strip(), " ".join(["Usage:", command, *[arguments] * bool(arguments), "[--flag=value ...]"])]
    for topic, names in _by_topic(values, own).items():
        parts.append("\n".join([f"{topic}:", *(_described(values[name]) for name in names)]))
    parts.append(
        "The values shown are defaults. --flagfile=FILE reads flags from a file, which may be one of tfdml's recipes, "
        "such as configs/quickstart.flags, from any folder. --helpfull also shows absl's flags."
    )
    return "\n\n".join(parts)


def _by_topic(values, own):
    modules = values.flags_by_module_dict()
    names = [flag.name for module in own for flag in modules.get(module, [])]
    found = {topic: some for topic, some in topics().items() if set(some) <= set(names)}
    rest = [name for name in names if not any(name in some for some in found.values())]
    return {"This command" if found else "Flags": rest, **found}


def _described(flag):
    # absl puts the choices first.
    choices, text = re.fullmatch(r"(?:<(.*?)>: )?(.*)", flag.help, re.DOTALL).groups()
    kind = f"one of {choices.replace('|', ', ')}" if choices else flag.parser.syntactic_help
    default = (flag.default_as_str or "").strip("'")
    text = textwrap.fill(f"{text} ({kind})" if kind else text, WIDTH - 6, break_on_hyphens=False)
    return f"  --{flag.name}={default}\n{textwrap.indent(text, ' ' * 6)}"
