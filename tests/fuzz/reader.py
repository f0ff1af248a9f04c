"""A process that reads hostile files and tells what that did; a program that `Watched` starts.

For each line on its input, `{"target": ..., "folder": ...}`, it writes one: the result as text, or the error, and what
must not happen: foreign code that ran, programs that were started, files outside of the folder that were written.
"""

import importlib
import json
import os
import sys
from pathlib import Path

PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "pty.spawn", "socket.connect"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Watch:
    """Audits this process while `folder` is set: notes what a file has no right to cause."""

    def __init__(self, hostile):
        self.folder, self.noted, self._hostile = None, [], str(hostile)
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if self.folder is None:
            return
        if event in PROGRAMS:
            self.noted.append(f"{event}{arguments[:2]!r}")
        elif event == "exec" and getattr(arguments[0], "co_filename", "").startswith(self._hostile):
            self.noted.append(f"ran {arguments[0].co_filename}")
        elif event == "pickle.find_class":
            self.noted.append(f"unpickled {arguments}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            self._opened(os.path.realpath(os.fsdecode(arguments[0])), arguments[2])

    def _opened(self, path, flags):
        # Names that are relative to an open folder look like files of the working folder, which are not there.
        if path.startswith(self._hostile) and os.path.exists(path):
            self.noted.append(f"opened {path}")
        elif flags & WRITING and not self._may_write(path):
            self.noted.append(f"wrote {path}")

    def _may_write(self, path):
        # The files of the tests may be in /dev/shm.
        is_device = path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")
        return is_device or path.startswith((str(self.folder), self.temporary))


def read(watch, target, folder):
    """Reads the files in a folder and returns what happened."""
    watch.folder, watch.noted = folder, []
    try:
        return {"result": repr(target.read(Path(folder)))}
    except (Exception, SystemExit) as error:
        expected = isinstance(error, ValueError | OSError | ImportError) and not isinstance(error, UnicodeError)
        return {"error": f"{type(error).__name__}: {error}", "expected": expected}
    finally:
        watch.folder = None


def _memory(name):
    """Returns an entry of this process' memory in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _taken(marks):
    """Returns the names of the marks, and removes them for the next file."""
    found = list(marks.iterdir())
    for mark in found:
        mark.unlink()
    return [mark.name for mark in found]


def main(module, hostile):
    answers = os.fdopen(os.dup(1), "w")
    # What libraries print is not an answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    targets = importlib.import_module(module).TARGETS
    watch = Watch(Path(hostile).resolve())
    watch.temporary = os.path.realpath(os.environ["TMPDIR"])
    # What comes before this is no file's time.
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        before = _memory("VmRSS")
        # From now on the peak is that of this file.
        Path("/proc/self/clear_refs").write_text("5")
        happened = read(watch, targets[request["target"]], request["folder"])
        happened |= {"peak": _memory("VmHWM") - before, "marks": _taken(Path(hostile) / "marks")}
        answers.write(json.dumps({**happened, "noted": watch.noted}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
