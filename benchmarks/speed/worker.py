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
    """Runs `main(library)` of a module of `benchmarks.speed` in a process of its own, with so much memory or any."""

    def __init__(self, module, library, environment, most_memory=MOST_MEMORY):
        self._most_memory = most_memory
        self._errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.speed.{module} import main; main({library!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            text=True,
            preexec_fn=self._limit_memory,
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
            limit = self._most_memory
            raise TooMuch(f"more than {limit / 2**30:.0f} GiB" if limit else "more memory than there is")
        raise RuntimeError(f"The process that measures {question} ended: {said.splitlines()[-1:]}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def _limit_memory(self):
        if self._most_memory:
            resource.setrlimit(resource.RLIMIT_AS, (self._most_memory, self._most_memory))
