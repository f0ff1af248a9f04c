"""A process that measures one library: a JSON question a line in, a JSON answer a line out."""

import json
import os
import resource
import select
import subprocess
import sys
import tempfile

# What a worker may take, so that one that needs more ends alone.
MOST_MEMORY = 20 * 2**30


class TooMuch(Exception):
    """A worker took more time or memory than it may."""


class Worker:
    """Runs `main(library)` of a module of `benchmarks.speed` in a process of its own."""

    def __init__(self, module, library, environment):
        self._errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.speed.{module} import main; main({library!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)),
        )

    def ask(self, patience=None, **question):
        """The answer; `TooMuch` if it takes more seconds than `patience`, or more memory than there may be."""
        print(json.dumps(question), file=self.process.stdin, flush=True)
        if patience is not None and not select.select([self.process.stdout], [], [], patience)[0]:
            self.process.kill()
            raise TooMuch(f"more than {patience} s")
        answer = self.process.stdout.readline()
        if answer:
            return json.loads(answer)
        self.process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip()
        if self.process.returncode < 0 or any(word in said for word in ("MemoryError", "alloc", "OOM")):
            raise TooMuch(f"more than {MOST_MEMORY / 2**30:.0f} GiB")
        raise RuntimeError(f"The process that measures {question} ended: {said.splitlines()[-1:]}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
