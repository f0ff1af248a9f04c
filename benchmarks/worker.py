"""A process that measures one library: a JSON question a line in, a JSON answer a line out."""

import json
import os
import subprocess
import sys


class Worker:
    """Runs `main(library)` of a module of `benchmarks` in a process of its own."""

    def __init__(self, module, library, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.{module} import main; main({library!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            text=True,
        )

    def ask(self, **question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process that measures {question} ended; is there enough memory?")
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
