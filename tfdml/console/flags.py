"""The flags of all commands, flagfiles, and default flags that depend on the data."""

import dataclasses
import difflib
import math
import os
import re
import shlex
import stat
import typing
from pathlib import Path

from absl import flags

from tfdml.console.flag_fields import AbsolutePath, ImageSize
from tfdml.console.settings import IMAGES, DataSettings, Settings, names_with, values_of

NAMES = ("--flagfile", "-flagfile")
GIVEN = tuple(f"{name}=" for name in NAMES)
COMMENTS = ("#", "//")
# Paths that a shell substitutes for `<(...)`: a pipe, which can only be read once.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders of the shipped flagfiles: in an installed package, and in the repository.
RECIPES = (os.path.join(PACKAGE, "configs"), os.path.join(os.path.dirname(PACKAGE), "configs"))


def expanded(arguments):
    """Returns the arguments of a command with each --flagfile replaced by its flags; flagfiles can be nested."""
    flags, reading = [], [("", iter(arguments))]
    while reading:
        argument = next(reading[-1][1], None)
        if argument is None:
            reading.pop()
        elif argument == "--":
            # absl stops reading flags here.
            return [*flags, argument, *(each for _, rest in reversed(reading) for each in rest)]
        elif argument in NAMES or argument.startswith(GIVEN):
            named = next(reading[-1][1], None) if argument in NAMES else argument.partition("=")[2]
            if named is None:
                raise ValueError("--flagfile has no value. Expected --flagfile=FILE, such as configs/quickstart.flags.")
            path = located(named)
            above = [each for each, _ in reading[1:]]
            if path in above:
                names = " includes ".join([*above[above.index(path) :], path])
                raise ValueError(f"--flagfile={named} includes itself: {names}. Remove one of these lines.")
            if path.startswith(OF_THE_SHELL):
                flags.append(f"--flagfile={path}")
            elif path:
                reading.append((path, iter(_flags_in(path, named))))
        else:
            flags.append(argument)
    return flags


def located(path):
    """Returns the path of a flagfile or, if it does not exist, of the flagfile with this name that ships with tfdml.

    `quickstart.flags` is short for the shipped file `configs/quickstart.flags`.
    """
    path = os.path.expanduser(path)
    folder, name = os.path.split(os.path.normpath(path))
    shipped = os.path.join(recipes_folder(), name)
    return shipped if folder in ("", "configs") and not os.path.exists(path) and os.path.isfile(shipped) else path


def recipes_folder():
    """Returns the folder of the shipped flagfiles."""
    return next(filter(os.path.isdir, RECIPES), RECIPES[0])


def recipes():
    """Returns the sorted names of the shipped flagfiles."""
    folder = recipes_folder()
    return sorted(name for name in os.listdir(folder) if name.endswith(".flags")) if os.path.isdir(folder) else []


def _flags_in(path, named):
    if not os.path.exists(path) or os.path.isdir(path):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        recipe = f"{os.path.basename(named).removesuffix('.flags')}.flags"
        alike = difflib.get_close_matches(recipe, recipes(), n=1)
        hint = f" Did you mean --flagfile=configs/{alike[0]}?" if alike else ""
        raise FileNotFoundError(f"--flagfile={named} {what}. Expected a file of flags.{hint}")
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        # Reading it might never finish.
        raise OSError(f"--flagfile={named} cannot be read, because {path} is a {kind}, not a file.")
    try:
        lines = [line.strip() for line in Path(path).read_bytes().decode().splitlines()]
    except UnicodeDecodeError as error:
        reason = f"byte {error.start:,} is not valid UTF-8 text"
        raise ValueError(f"--flagfile={named} cannot be read: {reason}. Expected a text file of flags.") from None
    return [line for line in lines if line and not line.startswith(COMMENTS)]


# The default configuration for photos.
RECIPE = values_of("recipe")
# Flags for images and the network that embeds them, which do not apply to stored features.
OF_IMAGES = {*names_with(needs=IMAGES), *names_with(is_of_network=True)}
TEST_CLASSES = 0.3
# Minimum number of validation classes, if there are enough classes.
VALIDATION = 3
# Two classes for training and two for validation, because every neighbor is right if there is a single class.
FEWEST = 4


def complete(values, *, any_dataset=False):
    """Sets training flags to the default configuration for photos; returns them as `--name=value`.

    It only sets flags that are not set, and only if `--data_dir` is set and `--dataset` is not. With `any_dataset`,
    `--dataset` may be set as well, and if it has stored features, `--data_dir` need not be set.
    """
    data_dir, named = values["data_dir"].value, values["dataset"].present
    if any_dataset and _has_vectors(values):
        return _set_missing(RECIPE, values)
    if not data_dir or (named and not any_dataset):
        return []
    root = Path(data_dir)
    if not root.is_dir():
        if named:
            return []
        raise ValueError(
            f"--data_dir={data_dir} does not exist. Without --dataset, it must be a folder of photos. If you want a "
            "dataset that creates its files, such as toycars, set --dataset too."
        )
    divided = (root / "test").is_dir()
    folders = sum(each.is_dir() for each in (root / "train" if divided else root).glob("[!.]*"))
    train = folders if divided else folders - round(folders * TEST_CLASSES)
    validation_given = values["evaluate_on"].present or values["validation_classes"].present
    if folders and train < FEWEST and not (named or validation_given):
        what = f"{FEWEST} class folders in {root}/train" if divided else "6 class folders"
        raise ValueError(
            f"{root} has {folders} class folders{' in train' if divided else ''}, which are too few to hold out some "
            f"classes for validation and others for the test set. Expected {what} or more."
        )
    few = {"validation_classes": round(min(0.5, VALIDATION / train), 2)} if 0 < train < VALIDATION / 0.2 else {}
    dataset = "folder" if divided else f"folder(test_classes={TEST_CLASSES})"
    return _set_missing({"dataset": dataset, **few, **RECIPE}, values)


def _set_missing(recipe, values):
    """Sets the flags of a recipe that fit the other flags and are not set; returns them as `--name=value`."""
    missing = {name: value for name, value in _fitting(recipe, values).items() if not values[name].present}
    for name, value in missing.items():
        values[name].value = value
    return [values[name].serialize() for name in missing]


def features_spec(path):
    """Returns the dataset spec of a folder or file with stored features, in which some classes are the test set."""
    return f"embeddings(path={os.path.abspath(path)!r}, test_classes={TEST_CLASSES})"


def check_outside(values, name, folder):
    """Raises a ValueError if the `folder` of a flag is inside the folder of images, such as below `--data_dir=.`."""
    dataset, root = values["dataset"].value, Path(values["data_dir"].value).resolve()
    whole = dataset.startswith("photos") or "test_classes=" in dataset
    read = [root] if whole else [root / "train", root / "test"]
    if values["data_dir"].value and dataset.startswith(("folder", "photos")):
        if any(Path(folder).resolve().is_relative_to(each) for each in read):
            raise ValueError(
                f"--{name}={folder} is inside --data_dir={values['data_dir'].value}, where all folders are read as "
                f"classes of images. Set --{name} to a folder elsewhere."
            )


def without_network(values):
    """Sets `--backbone=identity` if it is not set and the dataset has stored features; returns whether it has."""
    missing = _has_vectors(values) and not values["backbone"].present
    if missing and not values["initial_model"].value:
        values["backbone"].value = "identity"
    return missing


def _fitting(recipe, values):
    """Returns the flags of a recipe that fit the other flags: another network, or stored features without a network."""
    backbone = values["backbone"]
    left_out = ()
    if _has_vectors(values):
        left_out = OF_IMAGES
    elif values["initial_model"].value:
        left_out = names_with(is_in_initial_model=True)
    elif backbone.present and not backbone.value.startswith("keras_applications("):
        # Other backbones include their weights, or have none.
        left_out = ("initial_weights",)
    return {name: value for name, value in recipe.items() if name not in left_out}


def _has_vectors(values):
    return DataSettings(dataset=values["dataset"].value).has_vectors


# The start of each path in `~/a,~/b:~/c`, the value of --run_dirs.
HOMES = re.compile(r"(?:^|(?<=[,:]))~[^/,:]*")


def expand_homes(values):
    """Replaces `~` by the home folder in flags, because shells do not expand it after `--out=`."""
    for name in values:
        value = values[name].value
        if isinstance(value, list):
            values[name].value = [os.path.expanduser(each) if isinstance(each, str) else each for each in value]
        elif isinstance(value, str) and value.startswith("~"):
            values[name].value = HOMES.sub(lambda home: os.path.expanduser(home[0]), value)


class PathParser(flags.ArgumentParser):
    """Makes paths absolute, so that the flags of a run have the same meaning in every working directory.

    Paths that start with `~` and URLs such as `gs://bucket` are unchanged.
    """

    syntactic_help = "a path"

    def parse(self, argument):
        return argument if not argument or argument[0] == "~" or "://" in argument else os.path.abspath(argument)


LEAST, MOST = 8, 4096


class SizeParser(flags.ArgumentParser):
    """Converts the side of a square to an integer, and a size such as `256x128` to (height, width)."""

    syntactic_help = "a side, or HEIGHTxWIDTH"

    def parse(self, argument):
        match = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", argument)
        height, width = (int(match[1]), int(match[2] or match[1])) if match else (-1, -1)
        if argument != "0" and not (LEAST <= height <= MOST and LEAST <= width <= MOST):
            raise ValueError(
                f"Expected a side such as 224, or height x width such as 256x128, each from {LEAST} to {MOST}; or 0 "
                "for the default size of the backbone."
            )
        return height if height == width else (height, width)


class SizeSerializer(flags.ArgumentSerializer):
    """Converts the values of `SizeParser` to text."""

    def serialize(self, value):
        return str(value) if isinstance(value, int) else "x".join(map(str, value))


def define_training(values=flags.FLAGS, only=None):
    """Defines the flags of a training run, or `only` some of them; returns their sorted names."""
    fields = [field for of_topic in _fields().values() for field in of_topic if only is None or field.name in only]
    for field in fields:
        _define(field, values)
    return sorted(field.name for field in fields)


def topics():
    """Returns a dictionary from topics of training to names of flags."""
    return {heading: [field.name for field in fields] for heading, fields in _fields().items()}


def _fields():
    return {field.metadata["heading"]: dataclasses.fields(field.type) for field in dataclasses.fields(Settings)}


def _define(field, values):
    about = field.metadata["flag"]
    default, text = field.default, about.help
    bounds = {"lower_bound": about.lower_bound, "upper_bound": about.upper_bound} if field.type in (int, float) else {}
    if typing.get_origin(field.type) is typing.Literal:
        flags.DEFINE_enum(field.name, default, typing.get_args(field.type), text, flag_values=values)
    else:
        DEFINE[field.type](field.name, default, text, flag_values=values, **bounds)
    if field.type is float:
        # absl's bounds checks accept NaN.
        flags.register_validator(field.name, math.isfinite, "expected a finite number", flag_values=values)
    if about.valid:
        flags.register_validator(field.name, *about.valid, flag_values=values)


def _define_list(name, default, text, flag_values):
    flags.DEFINE_list(name, list(default), text, flag_values)


def _define_path(name, default, text, flag_values):
    flags.DEFINE(PathParser(), name, default, text, flag_values, serializer=flags.ArgumentSerializer())


def _define_size(name, default, text, flag_values):
    flags.DEFINE(SizeParser(), name, str(default), text, flag_values, serializer=SizeSerializer())


# Functions that define a flag, by the type of its field.
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
    text = "Your own Python modules to import. For security, modules of a run are only imported if you list them here."
    flags.DEFINE_list("import_modules", [], text)


def define_query_model():
    text = (
        "Folder of another exported model that embeds queries, such as a student that was trained in the space of the "
        "index's model. If not set, the model of the index."
    )
    flags.DEFINE_string("query_model", "", text)


def define_debug():
    flags.DEFINE_bool("debug", False, "Show the traceback if an error occurs.")


def command_line(*words):
    """Returns words, such as `python`, `-m` and `--loss=triplet(mining='hard')`, as a line to paste into a shell."""
    return " ".join(map(quoted, words))


def quoted(word):
    """Quotes a word for a shell, in double quotes if possible, because specs contain single quotes."""
    word = str(word)
    if shlex.quote(word) == word or set('"$`\\!') & set(word):
        return shlex.quote(word)
    name, separator, value = word.partition("=")
    return f'{name}="{value}"' if separator and shlex.quote(name) == name else f'"{word}"'


def settings_of(names, values=flags.FLAGS):
    """Returns the `Settings` of the named flags. Only commands read flags; all other code uses these settings."""
    return Settings().replace(**{name: values[name].value for name in names})


def serialize(names, values=flags.FLAGS):
    """Returns the named flags as `{name: "--name=value"}`."""
    return {name: values[name].serialize() or f"--{name}=" for name in names}


def written(values):
    """Returns `{name: value}` as `{name: "--name=value"}`."""
    flag_values = flags.FlagValues()
    define_training(flag_values, only=values)
    for name, value in values.items():
        flag_values[name].value = value
    return serialize(values, flag_values)


def resolve(arguments):
    """Parses command-line arguments of training; returns the flags that its run stores, as `{name: "--name=value"}`."""
    values = flags.FlagValues()
    names = define_training(values)
    define_run_dir("", values)
    values(["train", *expanded(arguments)])
    expand_homes(values)
    # Without the folder of photos, the run can only come from a record.
    if Path(values["data_dir"].value).is_dir():
        complete(values)
    without_network(values)
    return serialize(names, values)


def parse(text):
    """Parses the text of a saved flags file; returns `(settings, {name: "--name=value"})`."""
    values = flags.FlagValues()
    names = define_training(values)
    values(["flags.txt", *text.splitlines()])
    return settings_of(names, values), serialize(names, values)
