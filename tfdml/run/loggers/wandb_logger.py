"""`WandbLogger`: curves in Weights & Biases."""

import os

from tfdml.run.directory.hparams import scores_of
from tfdml.run.loggers.known_run import KnownRun

PROJECT = "tfdml"


class WandbLogger:
    """Logs to Weights & Biases: flags as the configuration, scalars by step, scores as the summary.

    Where to, its own variables say, such as `WANDB_PROJECT`, or `tfdml`, and `WANDB_MODE=offline`. A run that goes on
    is the same run there.

    Args:
        run: `RunDirectory`.
    """

    def __init__(self, run):
        self._run, self._known = run, KnownRun(run, "wandb")
        self._there = None

    def write(self, step, scalars):
        """Logs numbers by their names."""
        # Steps of its own only grow, and after a checkpoint some come again.
        self._begin().log({"step": int(step), **{name: float(value) for name, value in scalars.items()}})

    def finish(self, result):
        """Logs the scores of a complete run, and ends it."""
        there = self._begin()
        there.summary.update(scores_of(result))
        there.finish()

    def _begin(self):
        """Returns the run there, a new one or that with which this one goes on."""
        if self._there:
            return self._there
        import wandb

        number, path = self._known.number(), self._run.path.absolute()
        if number and wandb.run and wandb.run.id == number:
            # Another logger of this process has begun it.
            self._there = wandb.run
            return self._there
        self._there = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=path.name,
            id=number,
            resume="allow",
            config={**self._run.settings().values(), "run_dir": str(path)},
        )
        self._there.define_metric("*", step_metric="step")
        self._known.keep(self._there.id)
        return self._there
