"""A process that measures one library: reads a JSON question per line and prints a JSON answer per line."""

import json
import os
import resource
import select
import subprocess
import sys
import tempfile

# Memory limit of a worker, so that only this worker ends if it needs more.
MOST_MEMORY = 20 * 2**30


class TooMuch(Exception):
    """A worker exceeded its time or memory limit."""


class Worker:
    """Runs `main(library)` of a module of `benchmarks.speed` in its own process, optionally with a memory limit."""

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
        """Returns the answer, or raises `TooMuch` if it exceeds `patience` seconds or the memory limit."""
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
            raise TooMuch(f"more than {limit / 2**30:.0f} GiB" if limit else "more memory than available")
        raise RuntimeError(f"The process that measures {question} ended: {said.splitlines()[-1:]}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def _limit_memory(self):
        if self._most_memory:
            resource.setrlimit(resource.RLIMIT_AS, (self._most_memory, self._most_memory))
