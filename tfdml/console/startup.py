"""Starts and ends commands: Ctrl-C, the TensorFlow log, error messages, and the version of tfdml."""

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

# Modules in these packages are commands if they are run with `python -m`. They parse their flags before they import
# TensorFlow, so that --help, Ctrl-C and errors about mistyped flags are immediate.
COMMAND_LINES = ("tfdml", "pipelines")

# Packages that commands hide while they import TensorFlow and Keras. If they are installed, Keras imports them for
# converters and wrappers, which would double the import time.
HIDDEN = ("jax", "matplotlib", "scipy", "sklearn")

# Environment variable with the file descriptor of a pipe. The parent process holds the other end.
PIPE_OF_PARENT = "TFDML_PIPE_OF_PARENT"

# File descriptor of standard error. It is a different one while `import_keras_quietly` captures descriptor 2.
_standard_error = 2
# Whether `import tfdml` postponed its imports to `import_package`. None before the first import.
_postponed = None


def begin():
    """Prepares `import tfdml`; returns whether it should import everything, which is False in commands."""
    global _postponed
    if _postponed is None:
        _postponed = module_run().partition(".")[0] in COMMAND_LINES
        if _postponed:
            _end_with_parent()
        try:
            _check_pipelines()
            # Fail now rather than when a command locks a folder. `import tfdml` needs no locks.
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
    """Ends this process as soon as its parent ends, even by SIGKILL, if the parent passed a pipe."""
    # The variable must not be inherited by child processes.
    pipe = os.environ.pop(PIPE_OF_PARENT, "")
    if not pipe:
        return
    os.set_inheritable(int(pipe), False)

    def wait():
        # Nothing is ever written, so this returns when the other end is closed.
        os.read(int(pipe), 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _check_pipelines():
    """Raises an ImportError if Python finds another package named `pipelines` before tfdml's."""
    needed = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "pipelines")
    spec = importlib.util.find_spec("pipelines")
    folders = list(spec.submodule_search_locations or [spec.origin]) if spec else []
    if not any(os.path.realpath(folder) == os.path.realpath(needed) for folder in folders):
        raise ImportError(
            f"tfdml needs its own package pipelines in {needed}, but Python finds {folders[0] if folders else 'none'}. "
            "Rename the other package, or start Python in another folder."
        )


def import_package():
    """Performs the imports that `import tfdml` postponed in a command."""
    global _postponed
    if _postponed:
        _postponed = False
        _check_tensorflow()
        # TensorFlow only uses oneDNN by default on the newest processors, but it is faster on older ones as well.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
        with without_collections():
            import_keras_quietly(["tensorflow", "keras"], HIDDEN)
            importlib.reload(sys.modules["tfdml"])
            # Imported objects are never freed. Without this, every full garbage collection would traverse them, which
            # takes 0.3 s.
            gc.freeze()


def _check_tensorflow():
    """Ends a command if Keras would not compute with TensorFlow."""
    instead = "To train on JAX or PyTorch, call model.fit in Python."
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        sys.exit(f"Error: tfdml's commands work only on TensorFlow. Received: KERAS_BACKEND={backend}. {instead}")
    if importlib.util.find_spec("tensorflow") is None:
        sys.exit(f"Error: tfdml's commands need TensorFlow. Install it by pip install 'tfdml[cpu]'. {instead}")


def choose_backend():
    """Makes Keras compute with JAX, or else with PyTorch, if TensorFlow is not installed and no backend is set."""
    if os.environ.get("KERAS_BACKEND") or importlib.util.find_spec("tensorflow"):
        return
    installed = [name for name in ("jax", "torch") if importlib.util.find_spec(name)]
    if not installed:
        raise ImportError(
            "tfdml needs TensorFlow, JAX or PyTorch. Install one of them: pip install 'tfdml[cpu]', 'tfdml[jax]' or "
            "'tfdml[torch]'."
        )
    os.environ["KERAS_BACKEND"] = installed[0]


@contextlib.contextmanager
def without_collections():
    """Returns a context without garbage collection, which would need 0.5 s during imports and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def module_run():
    """Returns the name of the module that `python -m` or the program `tfdml` runs, or an empty string."""
    if sys.argv and sys.argv[0] == "-m":
        # Python is still looking for the module. `sys.argv` already contains the arguments after its name.
        return sys.orig_argv[-len(sys.argv)]
    specification = vars(sys.modules["__main__"]).get("__spec__")
    if specification:
        return specification.name
    # The script `tfdml` that pip creates only selects a command.
    return "tfdml.__main__" if sys.argv and os.path.basename(sys.argv[0]) == "tfdml" else ""


def end_on_interrupt():
    """Makes Ctrl-C end the process with one line, unless Ctrl-C is ignored, as for background processes."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_interrupt():
    """Makes Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def import_keras_quietly(modules=("keras",), hidden=()):
    """Imports modules, by default Keras, and removes known log noise of its backend from standard error.

    The log level of TensorFlow does not apply to these lines, because they are written before logging is configured.
    The packages in `hidden` cannot be imported during this time.
    """
    global _standard_error
    import tempfile

    if "keras" in sys.modules:
        return
    choose_backend()
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    hidden = [package for package in hidden if package not in sys.modules]
    sys.stderr.flush()
    _standard_error = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        # Modules that are None here cannot be imported.
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
    # An exception would be replaced by other errors during imports, and print a traceback.
    del number, frame
    os.write(_standard_error, b"Interrupted.\n")
    os._exit(INTERRUPTED_STATUS)


# Lines of a TensorFlow error before its message: headings and a stack trace.
BEFORE_REASON = re.compile(
    r"Graph execution error|Detected at node|\d+ root error|<stack traces unavailable>|\s+File \"|\t? *\[\[\{\{"
)


def tensorflow_reason(error: Exception) -> str:
    """Returns the message of a TensorFlow error in one line, without a period and without names of operations.

    For an error in a graph, the message comes after the stack trace of the operation's definition.
    """
    lines = [line for line in error.message.split("\n") if line.strip() and not BEFORE_REASON.match(line)]
    message = re.sub(r"^\s*\(\d+\) *\w+:|\{\{.*?\}\}|\[Op:.*", "", (lines or [error.message])[0]).strip()
    checked = re.fullmatch(r"assertion failed: (.*)", message)
    message = " ".join(re.findall(r"\[*([^][]+)\]*", checked[1])) if checked else message
    return message.rstrip(".")


# All messages about a full disk contain these words.
ROOM = "Make room"
# What is wrong and what to do, by error number of the operating system.
ADVICE = {
    errno.ENOSPC: f"no space is left on the disk. {ROOM}, then repeat the command.",
    errno.EDQUOT: f"your disk quota is exceeded. {ROOM}, then repeat the command.",
    errno.EFBIG: "the file would be larger than this file system or your limits allow. Use another folder.",
    errno.EROFS: "the disk is read-only. Use another folder.",
    errno.EACCES: "permission denied. Use another folder, or change the permissions.",
    errno.ENOENT: "the file or folder does not exist.",
    errno.ENOTDIR: "part of the path is a file, not a folder.",
    errno.EISDIR: "it is a folder, not a file.",
}
# Errors that only occur when writing.
OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

UNFINISHED = re.compile(r"(?<=/)\.writing-|\.tmp[0-9a-f]{8,}$")


def is_full(text):
    """Whether the output of a command reports a full disk, which does not depend on its flags."""
    return ROOM in text


def error_sentence(error):
    """Returns the message to print for an error; only errors of the operating system are reworded."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # If a file is copied, the second name is the file that is written.
    file = error.filename2 or error.filename
    if file or error.errno in OF_WRITING:
        return _sentence(error.errno, file)
    return f"{error.strerror}."


def disk_sentence(reason):
    """Returns the message to print for a TensorFlow error if it is caused by the disk, or None."""
    for number in (*OF_WRITING, errno.EACCES):
        match = re.search(rf"(?:(\S+?)[;:] )?{os.strerror(number)}", reason)
        if match:
            return _sentence(number, match[1])
    return None


def _sentence(number, file):
    what = "write" if number in OF_WRITING else "use"
    # Files have temporary names while they are written.
    name = UNFINISHED.sub("", str(file or "a file"))
    return f"Cannot {what} {name}: {ADVICE.get(number, os.strerror(number) + '.')}"


class TrainingStopped(RuntimeError):
    """Raised when training stops on request, after its state is saved."""


__version__ = "0.1.0"
