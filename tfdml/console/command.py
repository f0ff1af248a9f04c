"""Runs a command: help, error messages, hints and exit statuses, which all commands share."""

import itertools
import logging
import os
import re
import signal
import sys
import textwrap
from pathlib import Path

from absl import app, flags
from absl import logging as absl_logging

from tfdml.console import scores, startup
from tfdml.console.flags import command_line, expand_homes, expanded, topics
from tfdml.console.startup import TrainingStopped, disk_sentence, error_sentence, tensorflow_reason

WIDTH = 100
# Replaces absl's `--help`, which only lists the flags of one file. `--helpfull` stays absl's.
ASKED_BY = ("--help", "-help", "-?", "--helpshort", "-helpshort")


def help_text(about, command, arguments, values, defining):
    """Returns the help text of a command, which starts with the docstring `about` of its module.

    `arguments` describes the positional arguments and may be empty. `defining` are absl's names of the modules that
    define the flags.
    """
    usage = " ".join(filter(None, ["Usage:", command, arguments, "[--flag=value ...]"]))
    modules = values.flags_by_module_dict()
    # Old spellings of flags are accepted, but not shown.
    names = [flag.name for module in defining for flag in modules.get(module, []) if not flag.help.startswith("Alias")]
    shared = {topic: some for topic, some in topics().items() if set(some) <= set(names)}
    rest = [name for name in names if not any(name in some for some in shared.values())]
    sections = [
        "\n".join([f"{topic}:", *(_described(values[name]) for name in some)])
        for topic, some in {"This command" if shared else "Flags": rest, **shared}.items()
    ]
    end = (
        "The values shown are the defaults. --flagfile=FILE reads flags from a file. Files that ship with tfdml, "
        "such as configs/quickstart.flags, are found from any folder. --helpfull also shows the flags of absl."
    )
    return "\n\n".join([about.strip(), usage, *sections, textwrap.fill(end, WIDTH, break_on_hyphens=False)])


def _described(flag):
    # absl adds the choices before the text.
    choices, text = re.fullmatch(r"(?:<(.*?)>: )?(.*)", flag.help, re.DOTALL).groups()
    kind = f"one of {choices.replace('|', ', ')}" if choices else flag.parser.syntactic_help
    default = (flag.default_as_str or "").strip("'")
    text = textwrap.fill(f"{text} ({kind})" if kind else text, WIDTH - 6, break_on_hyphens=False)
    return f"  --{flag.name}={default}\n{textwrap.indent(text, ' ' * 6)}"


RATE = "--optimizer='adam(learning_rate=0.001)'"
# Names of flags in other programs, and the flags to use instead.
WRITE = {
    "arch": "--backbone",
    "batch_size": "--sampler='pxk(classes=32, per_class=4)', which is a batch of 32 x 4 images",
    "data": "--data_dir",
    "embedding_dim": "--embedding_size",
    "epoch": "--epochs",
    "gpus": "--devices=gpu:2",
    "learning_rate": RATE,
    "lr": RATE,
    "margin": "--loss='triplet(margin=0.2)'",
    "miner": "--loss=\"triplet(mining='hard')\"",
    "model": "--backbone",
    "num_epochs": "--epochs",
    "output_dir": "--run_dir",
    "out": "--run_dir",
    "pretrained": "--initial_weights=imagenet",
    "resume": "--run_dir, the folder of the run, with its flags",
    "top_k": "--k",
    "weight_decay": "--optimizer='adamw(weight_decay=0.01)'",
    "weights": "--initial_weights",
}


def in_place_of(name, known):
    """Returns a sentence with the flag to use instead of an unknown one if that flag is `known`, or else None."""
    written = WRITE.get(name, "")
    flag = written.removeprefix("--").partition("=")[0].partition(",")[0]
    return f"Unknown flag --{name}. Use {written}." if flag in known else None


def flag_sentence(message):
    """Returns absl's message about a flag's value, or the expected type if the message is a Python error."""
    match = re.fullmatch(r"flag --(\w+)=(.*?): (.*)", message, re.DOTALL)
    if not match:
        return message
    name, value, reason = match.groups()
    received = f"Received: --{name}={value}."
    if reason.startswith("invalid literal for int()"):
        return f"--{name} must be an integer. {received}"
    if reason.startswith("could not convert string to float"):
        return f"--{name} must be a number. {received}"
    if "Non-boolean argument" in reason:
        return f"--{name} must be true or false. {received} Use --{name} or --no{name}."
    return message


STOPPED_STATUS = 75
# Flags that only print a long text.
READ_BY_PEOPLE = {*ASKED_BY, "--helpfull", "--list"}
# Packages whose messages are printed.
PACKAGES = ("tfdml", "pipelines")
# Value of TF_CPP_MIN_LOG_LEVEL.
ONLY_FATAL = "3"


class _Plain(logging.Formatter):
    """Formats log messages like printed lines: without time, process and line of code."""

    def format(self, record):
        message = super().format(record)
        return message if record.levelno <= logging.INFO else f"{record.levelname.capitalize()}: {message}"


class _Messages(logging.Handler):
    """Prints messages of level INFO. In Python code, they are only visible if the user configures logging."""

    stream = "stdout"

    def emit(self, record):
        if _is_message(record):
            print(self.format(record), file=getattr(sys, self.stream))


MESSAGES = _Messages()


def _is_message(record):
    return record.levelno <= logging.INFO and record.name.partition(".")[0] in PACKAGES


def print_messages(stream="stdout"):
    """Prints messages of tfdml and pipelines to a stream of `sys`; absl's handler prints warnings."""
    MESSAGES.stream = stream
    for package in PACKAGES:
        logging.getLogger(package).setLevel(logging.INFO)
        logging.getLogger(package).addHandler(MESSAGES)
    absl_logging.get_absl_handler().addFilter(lambda record: not _is_message(record))


def run(main, arguments="", before=None, others=False, imports=True, reads_images=False, messages="stdout"):
    """Runs a command with absl. Expected errors print one line; `--debug` adds the traceback.

    Args:
        main: Function that runs the command, called after TensorFlow is imported.
        arguments: Description of the positional arguments for `--help`. If it is not empty, `main` is called with the
            list of positional arguments and before TensorFlow is imported.
        before: Function to call before TensorFlow is imported, which takes seconds.
        others: Whether `main` also gets flags that the command does not define.
        imports: Whether to import TensorFlow. If not, `main` calls `import_package` when it needs it.
        reads_images: Whether the command lists unreadable images and continues. TensorFlow would log many lines for
            each of these images, so its log is disabled, unless `--debug` or the environment enables it.
        messages: Stream for log messages: `stderr` if other programs read the output of `main`.
    """

    def guarded(argv):
        if argv[1:] and not arguments:
            print(f"Error: Unexpected argument {argv[1]!r}. Flags start with --.", file=sys.stderr)
            sys.exit(1)
        # Show each line immediately, even if the output is redirected to a file.
        sys.stdout.reconfigure(line_buffering=True)
        absl_logging.get_absl_handler().setFormatter(_Plain())
        print_messages(messages)
        if reads_images and not flags.FLAGS.debug:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", ONLY_FATAL)
        try:
            if before:
                before()
            if imports and not arguments:
                import_package()
            startup.raise_on_interrupt()
            main(argv[1:]) if arguments else main()
            sys.stdout.flush()
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            sys.exit(startup.INTERRUPTED_STATUS)
        except TrainingStopped as stopped:
            print(stopped, file=sys.stderr)
            sys.exit(STOPPED_STATUS)
        except (ValueError, OSError, ImportError, FloatingPointError) as error:
            _end(f"{_flag_of(error)}{error_sentence(error)}")
        except _tensorflow_errors() as error:
            reason = tensorflow_reason(error)
            _end(disk_sentence(reason) or f"TensorFlow failed: {reason} (for the traceback, add --debug)")
        except MemoryError as error:
            _end(f"Not enough memory: {error}. Use smaller images, smaller batches or fewer images.")
        except Exception as error:
            _end(f"{type(error).__name__}: {error} (for the traceback, add --debug)")
        finally:
            startup.end_on_interrupt()

    startup.end_on_interrupt()
    app.run(guarded, flags_parser=lambda argv: _parse(argv, arguments, others))


def given(*names):
    """Returns `{name: value}` of the flags that are set."""
    return {name: flags.FLAGS[name].value for name in names if flags.FLAGS[name].value}


def print_next(module, *words):
    """Prints the command to run next, ready to be pasted into a shell."""
    print(f"Next: {command_line('python', '-m', module, *words)}")


def aligned(rows, left=(0,)):
    """Returns rows of texts as a table; the columns in `left` are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if column in left else str.rjust for column in range(len(widths))]
    lines = ("  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def print_result(tables, run_dir, sentences=""):
    """Prints the scores of a run or an ensemble, and the sentences about them.

    `tables` maps titles to rows, which map names to metrics; the last row determines which metrics are shown.
    """
    for title, rows in tables.items():
        shown = [metric for metric in list(rows.values())[-1] if metric != "queries"]
        lines = [[title, *map(scores.titled, shown)]]
        for name, metrics in rows.items():
            lines.append([name, *(scores.score(metric, metrics.get(metric)) for metric in shown)])
        print(f"\n{aligned(lines)}")
    print(f"\n{sentences}\n\nRun directory: {run_dir}" if sentences else f"\nRun directory: {run_dir}")


def print_scores(values, intervals=None):
    """Prints metrics in a table, with their 95% confidence intervals if there are any."""
    intervals = intervals or {}
    rows = [[scores.titled(name), scores.score(name, value)] for name, value in values.items() if name != "queries"]
    if intervals:
        ends = [
            scores.interval(name, intervals[name]) if intervals.get(name) else ""
            for name in values
            if name != "queries"
        ]
        rows = [["", "score", "95% CI"], *([*row, each] for row, each in zip(rows, ends, strict=True))]
    print(f"{aligned(rows)}\n")


def own_modules(names):
    """Returns the flag `--import_modules` with these names in a list, which may be empty."""
    return [f"--import_modules={','.join(names)}"] if names else []


def free_path(name):
    """Returns the first of the paths `name(1)`, `name(2)`, ... that does not exist yet."""
    return next(path for path in map(name, itertools.count(1)) if not Path(path).exists())


def refuse_unused(names, reason):
    """Raises a ValueError if one of these flags is set, because the command would ignore it.

    `reason` is a clause that follows "because", such as "--pairs verifies pairs".
    """
    for name in names:
        if flags.FLAGS[name].present:
            raise ValueError(f"--{name} has no effect here, because {reason}. Remove it.")


def check_file(name):
    """Raises a ValueError before any work is done if the file that a flag names cannot be written."""
    if not flags.FLAGS[name].value:
        return
    path = Path(flags.FLAGS[name].value)
    if path.is_dir():
        raise ValueError(f"--{name}={path} is a folder. Set it to a file.")
    if not path.parent.is_dir():
        raise ValueError(f"--{name}={path}: the folder {path.parent} does not exist. Create it, or use another folder.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"--{name}={path}: {path.parent} is read-only. Use another folder.")


def check_folder(name):
    """Raises a ValueError before any work is done if the folder that a flag names cannot be created or written."""
    path = Path(flags.FLAGS[name].value)
    nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise ValueError(f"--{name}={path}: {nearest} is a file. Set --{name} to a folder.")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--{name}={path}: {nearest} is read-only. Use another folder.")


def _parse(argv, arguments, others):
    """Parses flags and returns the positional arguments. For `--help`, prints the help and exits."""
    asked = argv[: argv.index("--")] if "--" in argv else argv
    if READ_BY_PEOPLE & set(asked):
        # If the output is piped to `head`, exit without an error when `head` exits.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if set(ASKED_BY) & set(asked):
        main = sys.modules["__main__"]
        # absl uses the file name for the module that is run.
        modules = sys.argv[0], "tfdml.console.flags"
        print(help_text(main.__doc__, f"python -m {startup.module_run()}", arguments, flags.FLAGS, modules))
        sys.exit(0)
    if "--helpfull" in asked:
        app.usage(writeto_stdout=True, exitcode=0)
    try:
        rest = flags.FLAGS([argv[0], *expanded(argv[1:])], known_only=others)
    except (ValueError, OSError) as error:
        print(f"Error: {error_sentence(error)}", file=sys.stderr)
        sys.exit(1)
    except flags.Error as error:
        unknown = isinstance(error, flags.UnrecognizedFlagError)
        message = in_place_of(error.flagname, flags.FLAGS) if unknown else flag_sentence(str(error))
        message = " ".join((message or str(error).replace(" ?", "?")).split())
        print(f"Error: {message} (for all flags, see --help)", file=sys.stderr)
        sys.exit(1)
    expand_homes(flags.FLAGS)
    return rest


def import_package():
    """Imports TensorFlow and all of tfdml without their log messages."""
    startup.import_package()
    logging.getLogger("tensorflow").setLevel(logging.WARNING)


def _tensorflow_errors():
    """Returns the classes of TensorFlow errors, or none if the command has not imported TensorFlow."""
    module = sys.modules.get("tensorflow")
    return (module.errors.OpError,) if module else ()


def _flag_of(error):
    """Returns the flag with the invalid spec as a prefix for a message, unless the message already contains it."""
    # If the module is not imported, no spec was parsed.
    specs = sys.modules.get("tfdml.registry.specs")
    if not (specs and isinstance(error, specs.SpecError)):
        return ""
    for name in flags.FLAGS:
        value = flags.FLAGS[name].value
        if error.spec and (error.spec == value or (isinstance(value, list) and error.spec in value)):
            return "" if f"--{name}" in str(error) else f"--{name}={error.spec}: "
    return ""


def _end(message):
    """Exits with an error message. Call it in an `except` block, because `--debug` raises the error again."""
    if "debug" in flags.FLAGS and flags.FLAGS.debug:
        raise
    print(f"Error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)
