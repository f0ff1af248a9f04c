"""What `--help` prints: the flags of a command line by topic, with their defaults."""

import re
import textwrap

from tfdml import flags

WIDTH = 100
# In place of absl's `--help`, which knows the flags of one file alone. `--helpfull` stays absl's.
ASKED_BY = ("--help", "-help", "-?", "--helpshort", "-helpshort")


def help_text(about, command, arguments, values, own):
    """The help of a command line.

    Args:
        about: docstring of its module.
        command: how it is called, such as `python -m tfdml.train`.
        arguments: what it takes besides flags, such as `FLAGFILE...`; may be empty.
        values: absl `FlagValues`.
        own: modules that define its flags, as absl calls them.
    """
    parts = [about.strip(), " ".join(["Usage:", command, *[arguments] * bool(arguments), "[--flag=value ...]"])]
    for topic, names in _by_topic(values, own).items():
        parts.append("\n".join([f"{topic}:", *(_described(values[name]) for name in names)]))
    parts.append(
        "Values shown are defaults. --flagfile=FILE reads flags from a file; --helpfull shows absl's flags, too."
    )
    return "\n\n".join(parts)


def _by_topic(values, own):
    modules = values.flags_by_module_dict()
    names = [flag.name for module in own for flag in modules.get(module, [])]
    found = {topic: some for topic, some in flags.topics().items() if set(some) <= set(names)}
    rest = [name for name in names if not any(name in some for some in found.values())]
    return {"This command" if found else "Flags": rest, **found}


def _described(flag):
    # absl puts the choices in front.
    choices, text = re.fullmatch(r"(?:<(.*?)>: )?(.*)", flag.help, re.DOTALL).groups()
    kind = f"one of {choices.replace('|', ', ')}" if choices else flag.parser.syntactic_help
    default = (flag.default_as_str or "").strip("'")
    text = textwrap.fill(f"{text} ({kind})" if kind else text, WIDTH - 6, break_on_hyphens=False)
    return f"  --{flag.name}={default}\n{textwrap.indent(text, ' ' * 6)}"
