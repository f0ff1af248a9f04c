"""Starts and ends commands: Ctrl-C, TensorFlow's log, the words of errors, and the version of tfdml."""

import contextlib
import errno
import gc
import importlib.util
import os
import re
import signal
import sys
import threading

NOISE = ("absl::InitializeLog", "oneDNN custom operations", "cpu_feature_guard", "To enable the following instructions")
INTERRUPTED_STATUS = 130

# Modules with these names, or in packages with these names, are commands if run by `python -m`: they parse their flags
# before they import TensorFlow, so that --help, a mistyped flag and Ctrl-C take effect at once.
COMMAND_LINES = ("tfdml", "pipelines")

# Packages that a command hides while it imports TensorFlow and Keras, which import them where they are installed, for
# converters, wrappers and galleries: that takes as long again as all the rest. TensorFlow itself imports Keras.
HIDDEN = ("jax", "matplotlib", "scipy", "sklearn")

# The environment's variable with the number of a pipe, of which the process that started this one holds the other end.
PIPE_OF_PARENT = "TFDML_PIPE_OF_PARENT"

# File descriptor of standard error; another one while `import_keras_quietly` captures 2.
_standard_error = 2
# Whether `import tfdml` postponed the imports to `import_package`; None before it.
_postponed = None


def begin():
    """Begins `import tfdml`; returns True if it should import everything, False in a command."""
    global _postponed
    if _postponed is None:
        _postponed = module_run().partition(".")[0] in COMMAND_LINES
        if _postponed:
            _end_with_parent()
        try:
            _check_pipelines()
            # Commands would fail later, when they lock a folder; `import tfdml` needs no locks.
            if _postponed and importlib.util.find_spec("fcntl") is None:
                raise ImportError(
                    f"tfdml's commands lock folders with fcntl, which Python on {sys.platform} lacks. Use Linux, "
                    "macOS, or WSL on Windows."
                )
        except ImportError as error:
            if _postponed:
                sys.exit(f"Error: {error}")
            raise
        if _postponed:
            end_on_interrupt()
    return not _postponed


def _end_with_parent():
    """Ends this process at once when the one that started it ends, even by SIGKILL, if that one passed a pipe."""
    # Not for the processes that this one starts.
    pipe = os.environ.pop(PIPE_OF_PARENT, "")
    if not pipe:
        return
    os.set_inheritable(int(pipe), False)

    def wait():
        # Nobody writes, so this returns when the other end is closed.
        os.read(int(pipe), 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _check_pipelines():
    """Raises an ImportError where another package hides `pipelines`, the one beside this package."""
    needed = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "pipelines")
    spec = importlib.util.find_spec("pipelines")
    folders = list(spec.submodule_search_locations or [spec.origin]) if spec else []
    if not any(os.path.realpath(folder) == os.path.realpath(needed) for folder in folders):
        raise ImportError(
            f"tfdml needs its own package pipelines, {needed}, and Python finds {folders[0] if folders else 'none'}. "
            "Rename that one, or start Python in another folder."
        )


def import_package():
    """Imports what `import tfdml` postponed in a command."""
    global _postponed
    if _postponed:
        _postponed = False
        # TensorFlow uses oneDNN by itself on the newest processors only; on those before it is faster, too.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
        with without_collections():
            import_keras_quietly(["tensorflow", "keras"], HIDDEN)
            importlib.reload(sys.modules["tfdml"])
            # Imported objects are never freed, and every full collection would traverse them for a third of a second.
            gc.freeze()


@contextlib.contextmanager
def without_collections():
    """Returns a context for imports: collections of garbage would find nothing, and take half a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def module_run():
    """Returns the name of the module that `python -m`, or the program `tfdml`, runs, or an empty string."""
    if sys.argv and sys.argv[0] == "-m":
        # Python is still looking for the module. The arguments after its name are in `sys.argv`, too.
        return sys.orig_argv[-len(sys.argv)]
    specification = vars(sys.modules["__main__"]).get("__spec__")
    if specification:
        return specification.name
    # The script that pip makes is the program `tfdml`, which only chooses a command.
    return "tfdml.__main__" if sys.argv and os.path.basename(sys.argv[0]) == "tfdml" else ""


def end_on_interrupt():
    """Makes Ctrl-C end the process with one line, unless Ctrl-C is ignored, as in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_interrupt():
    """Makes Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def import_keras_quietly(modules=("keras",), hidden=()):
    """Imports modules, of Keras by default, and drops known log noise of its backend from standard error.

    TensorFlow's log level does not reach these lines: they are written before its logging is set up. The packages in
    `hidden` are not found meanwhile.
    """
    global _standard_error
    import tempfile

    if "keras" in sys.modules or "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    hidden = [package for package in hidden if package not in sys.modules]
    sys.stderr.flush()
    _standard_error = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        # What is None here cannot be imported.
        sys.modules.update(dict.fromkeys(hidden))
        try:
            for module in modules:
                importlib.import_module(module)
        finally:
            for package in hidden:
                del sys.modules[package]
            os.dup2(_standard_error, 2)
            saved, _standard_error = _standard_error, 2
            os.close(saved)
            written.seek(0)
            for line in written.read().decode(errors="replace").splitlines(keepends=True):
                if not any(noise in line for noise in NOISE):
                    sys.stderr.write(line)


def _end(number, frame):
    # No exception: imports in progress would turn it into others, and print a traceback.
    del number, frame
    os.write(_standard_error, b"Interrupted.\n")
    os._exit(INTERRUPTED_STATUS)


# Lines of an error before its message: headings, and a stack of files.
BEFORE_REASON = re.compile(
    r"Graph execution error|Detected at node|\d+ root error|<stack traces unavailable>|\s+File \"|\t? *\[\[\{\{"
)


def tensorflow_reason(error: Exception) -> str:
    """Returns the message of a TensorFlow error in one line, without a full stop and the names of its operation.

    In an error from a graph the message comes after the place where the operation was defined.
    """
    lines = [line for line in error.message.split("\n") if line.strip() and not BEFORE_REASON.match(line)]
    message = re.sub(r"^\s*\(\d+\) *\w+:|\{\{.*?\}\}|\[Op:.*", "", (lines or [error.message])[0]).strip()
    checked = re.fullmatch(r"assertion failed: (.*)", message)
    message = " ".join(re.findall(r"\[*([^][]+)\]*", checked[1])) if checked else message
    return message.rstrip(".")


# All errors of a full disk say it, wherever they come from.
ROOM = "Make room"
# Error of the system to what is wrong and what to do.
ADVICE = {
    errno.ENOSPC: f"no space is left on the disk. {ROOM}, then give the same command again.",
    errno.EDQUOT: f"your share of the disk is used up. {ROOM}, then give the same command again.",
    errno.EFBIG: "files may not be that large here. Give another folder, or ask for a higher limit.",
    errno.EROFS: "the disk is read-only. Give another folder.",
    errno.EACCES: "you have no permission. Give another folder, or change the permissions.",
    errno.ENOENT: "there is no such file or folder.",
    errno.ENOTDIR: "a part of the path is a file, not a folder.",
    errno.EISDIR: "it is a folder, not a file.",
}
# Those that only writing meets.
OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

UNFINISHED = re.compile(r"(?<=/)\.writing-|\.tmp[0-9a-f]{8,}$")


def is_full(text):
    """Whether what a command has printed says that the disk is full, which is no fault of its flags."""
    return ROOM in text


def error_sentence(error):
    """Returns the sentence to print for an error; one that was written for people stays as it is."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # Of a copy the second is the file that is written.
    file = error.filename2 or error.filename
    if file or error.errno in OF_WRITING:
        return _sentence(error.errno, file)
    return f"{error.strerror}."


def disk_sentence(reason):
    """Returns the sentence to print for a reason that TensorFlow gives, if it is the disk, or None."""
    for number in (*OF_WRITING, errno.EACCES):
        match = re.search(rf"(?:(\S+?)[;:] )?{os.strerror(number)}", reason)
        if match:
            return _sentence(number, match[1])
    return None


def _sentence(number, file):
    what = "write" if number in OF_WRITING else "use"
    # Files have their other names only while they are written.
    name = UNFINISHED.sub("", str(file or "a file"))
    return f"Cannot {what} {name}: {ADVICE.get(number, os.strerror(number) + '.')}"


class TrainingStopped(RuntimeError):
    """Raised when training stops on request; its state is saved."""


__version__ = "0.1.0"
