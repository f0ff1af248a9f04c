"""The log of a run: `metrics.jsonl` and TensorBoard scalars."""

import json
import os
from pathlib import Path

import tensorflow as tf

from tfdml.checked_files import naming, write_atomically


class RunLog:
    """Writes events under the global step.

    Args:
        run_dir: run directory; events go to `metrics.jsonl`, scalars to `tensorboard/`.
        enabled: False for all but the chief of several workers.
    """

    def __init__(self, run_dir, enabled=True):
        self.enabled = enabled
        self.path = Path(run_dir) / "metrics.jsonl"
        self._events = 0
        if enabled:
            self._writer = tf.summary.create_file_writer(str(Path(run_dir) / "tensorboard"))

    def write(self, event, step, values, **more):
        """Appends an event; numbers in `values` become scalars `event/name`."""
        # The first event begins the file anew: what stands in it is of a run that ended before its first checkpoint.
        mode = "a" if self._events else "w"
        self._events += 1
        if not self.enabled:
            return
        line = json.dumps({"event": event, "step": step, **more, **values})
        with naming(self.path), open(self.path, mode, encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
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
        if self.enabled and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_atomically(self.path, "".join(lines[: self._events]).encode())
