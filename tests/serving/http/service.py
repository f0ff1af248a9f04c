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
        told = self.until(lambda: output.exists() and "Ctrl-C" in output.read_text()) and output.read_text()
        # Before it there may be a line about the threshold.
        pattern = r"^Serving [\d,]+ images at (http://127\.0\.0\.1:\d+/) \(press Ctrl-C to stop\)\n\Z"
        self.address = re.search(pattern, told, re.MULTILINE)[1]

    def ask(self, path, body=None, **headers):
        request = urllib.request.Request(self.address + path, body, {"authorization": f"Bearer {TOKEN}", **headers})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
