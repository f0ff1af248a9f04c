"""The command `python -m tfdml.serve`, and a client of it."""

import json
import re
import urllib.request

from tests.commands import Forked

TOKEN = "a-secret"


class Service(Forked):
    """The command on a free port, once it answers."""

    def __init__(self, index, environment=(), flags=()):
        super().__init__("tfdml.serve", f"--index={index}", "--port=0", *flags, environment=environment)
        output = self._output / "stdout"
        # Before and after it there may be other lines, such as one about the threshold.
        line = re.compile(r"^Serving [\d,]+ images at (http://127\.0\.0\.1:\d+/) \(press Ctrl-C to stop\)$", re.M)
        self.until(lambda: output.exists() and line.search(output.read_text()))
        self.address = line.search(output.read_text())[1]

    def ask(self, path, body=None, **headers):
        request = urllib.request.Request(self.address + path, body, {"authorization": f"Bearer {TOKEN}", **headers})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
