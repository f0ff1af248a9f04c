"""The log of a run: `metrics.jsonl`, and the scalars of a logger."""

import json
import logging

from tfdml.files.checked import naming
from tfdml.run.directory.log_lines import LogLines
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.loggers.choice import make_logger


class RunLog:
    """Writes events under the global step.

    Args:
        run_dir: run directory; events go to `metrics.jsonl`.
        enabled: False for all but the chief of several workers.
        logger: name of the logger that the scalars go to, as `--logger` takes it.
    """

    def __init__(self, run_dir, enabled=True, logger="tensorboard"):
        self.enabled = enabled
        self._events, self._lines = 0, LogLines(run_dir)
        self._logger = make_logger(RunDirectory(run_dir), logger) if enabled else None

    def write(self, event, step, values, **more):
        """Appends an event; numbers in `values` become scalars `event/name`."""
        begins = not self._events
        self._events += 1
        if not self.enabled:
            return
        line = json.dumps({"event": event, "step": step, **more, **values})
        with naming(self._lines.path):
            if begins:
                # What stands in the log is of a run that ended before its first checkpoint.
                self._lines.keep([])
            self._lines.append(f"{line}\n".encode())
        # A metric may have no value, such as the distance of pairs where there are none.
        self._logger.write(step, {f"{event}/{name}": value for name, value in values.items() if value is not None})

    def get_state(self):
        return {"events": self._events}

    def set_state(self, state):
        """Takes back the events that came after the state, since the steps that made them come again.

        TensorBoard drops them where an earlier step follows; with `--load_fast=false` it shows both.
        """
        self._events = state["events"]
        if not self.enabled:
            return
        lines = self._lines.read()
        if len(lines) < self._events:
            # There is no checksum, which would have told: somebody has removed them.
            lost = self._events - len(lines)
            logging.getLogger(__name__).warning("%s lacks %d events, which curves are without.", self._lines.path, lost)
            self._events = len(lines)
        if lines:
            self._lines.keep(lines[: self._events])
