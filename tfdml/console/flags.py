"""All flags of the commands. Only commands read them."""

import dataclasses
import math
import shlex
import typing

from absl import flags

from tfdml.console.flagfiles import expanded
from tfdml.console.path_parser import PathParser
from tfdml.console.setting_fields import AbsolutePath, ImageSize
from tfdml.console.settings import Settings
from tfdml.console.size_parser import SizeParser, SizeSerializer


def define_training(values=flags.FLAGS, only=None):
    """Defines the flags that describe a training run on an absl `FlagValues`, and returns their names.

    Args:
        values: `FlagValues`.
        only: names of those to define; None: all.
    """
    fields = [field for of_topic in _fields().values() for field in of_topic if only is None or field.name in only]
    for field in fields:
        _define(field, values)
    return sorted(field.name for field in fields)


def topics():
    """Returns `{topic: names of flags}` of training."""
    return {heading: [field.name for field in fields] for heading, fields in _fields().items()}


def _fields():
    """Returns `{topic: fields of its settings}`."""
    return {field.metadata["heading"]: dataclasses.fields(field.type) for field in dataclasses.fields(Settings)}


def _define(field, values):
    """Defines the flag of a field of the settings."""
    more = dict(field.metadata["bounds"])
    default, text, valid = field.default, field.metadata["help"], more.pop("valid", None)
    if typing.get_origin(field.type) is typing.Literal:
        flags.DEFINE_enum(field.name, default, typing.get_args(field.type), text, flag_values=values)
    else:
        DEFINE[field.type](field.name, default, text, flag_values=values, **more)
    if field.type is float:
        # Bounds let nan pass.
        flags.register_validator(field.name, math.isfinite, "expected a finite number", flag_values=values)
    if valid:
        flags.register_validator(field.name, *valid, flag_values=values)


def _define_list(name, default, text, flag_values):
    flags.DEFINE_list(name, list(default), text, flag_values)


def _define_path(name, default, text, flag_values):
    flags.DEFINE(PathParser(), name, default, text, flag_values, serializer=flags.ArgumentSerializer())


def _define_size(name, default, text, flag_values):
    flags.DEFINE(SizeParser(), name, str(default), text, flag_values, serializer=SizeSerializer())


# Type of a field to what defines its flag.
DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    AbsolutePath: _define_path,
    ImageSize: _define_size,
    tuple[str, ...]: _define_list,
}


def define_run_dir(help_text, values=flags.FLAGS):
    flags.DEFINE_string("run_dir", "", help_text, flag_values=values)


def define_which():
    flags.DEFINE_enum("which", "best", ["best", "final"], "Which model of the run to use.")


def define_import_modules():
    text = "Your own modules to import; those of a run are only if they are named here."
    flags.DEFINE_list("import_modules", [], text)


def define_debug():
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.")


def command_line(*words):
    """Returns a command, or flags, as one line that a shell takes when it is pasted.

    Args:
        *words: such as `python`, `-m` and `--loss=triplet(mining='hard')`.
    """
    return " ".join(map(quoted, words))


def quoted(word):
    """Returns a word as a shell takes it, in double quotes where those are enough: specs have single ones in them."""
    word = str(word)
    if shlex.quote(word) == word or set('"$`\\!') & set(word):
        return shlex.quote(word)
    name, separator, value = word.partition("=")
    return f'{name}="{value}"' if separator and shlex.quote(name) == name else f'"{word}"'


def settings_of(names, values=flags.FLAGS):
    """Returns the `Settings` that the named flags say. Everything but commands sees only these."""
    return Settings().replace(**{name: values[name].value for name in names})


def serialize(names, values=flags.FLAGS):
    """Returns `{name: "--name=value"}` of the named flags."""
    return {name: values[name].serialize() or f"--{name}=" for name in names}


def resolve(arguments):
    """Parses command line arguments of training; returns `{name: "--name=value"}`."""
    values = flags.FlagValues()
    names = define_training(values)
    define_run_dir("", values)
    values(["train", *expanded(arguments)])
    return serialize(names, values)


def parse(text):
    """Parses a saved flags file; returns `(settings, {name: "--name=value"})`."""
    values = flags.FlagValues()
    names = define_training(values)
    values(["flags.txt", *text.splitlines()])
    return settings_of(names, values), serialize(names, values)
