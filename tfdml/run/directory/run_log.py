"""The log of a run: `metrics.jsonl` and TensorBoard scalars."""

import json

import tensorflow as tf
from absl import logging

from tfdml.files.checked_files import folder_in, naming
from tfdml.run.directory.log_lines import LogLines


class RunLog:
    """Writes events under the global step.

    Args:
        run_dir: run directory; events go to `metrics.jsonl`, scalars to `tensorboard/`.
        enabled: False for all but the chief of several workers.
    """

    def __init__(self, run_dir, enabled=True):
        self.enabled = enabled
        self._events, self._lines = 0, LogLines(run_dir)
        if enabled:
            self._writer = tf.summary.create_file_writer(str(folder_in(run_dir, "tensorboard", "run")))

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
        with self._writer.as_default(step=step):
            for name, value in values.items():
                # A metric may have none, such as the distance of pairs where there are none.
                if value is not None:
                    tf.summary.scalar(f"{event}/{name}", value)
        self._writer.flush()

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
            logging.warning("%s lacks %d events, which curves are without.", self._lines.path, lost)
            self._events = len(lines)
        if lines:
            self._lines.keep(lines[: self._events])
