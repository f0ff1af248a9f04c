"""The log of a run, and loggers for TensorBoard, MLflow and Weights & Biases."""

import functools
import importlib.util
import json
import logging
import os
import shutil
import time

import tensorflow as tf

from tfdml.console.settings import names_with
from tfdml.files.checked import naming, read_record, write_record
from tfdml.run.directory.run_directory import LogLines, RunDirectory
from tfdml.run.directory.run_record import Record

# Where and how a run computes, which changes no result, or only what is measured.
LEFT_OUT = names_with(changes_result=False)
# Name of the project or experiment unless a variable of the environment says another one.
PROJECT = "tfdml"


def write_hparams(run, result):
    """Writes the settings of a complete run, and its scores, for the HParams tab.

    They are in a folder of their own, so that the tab shows these scores instead of all curves. If an ensemble is
    joined again, its new scores replace the old ones.
    """
    # Here, because a run needs it only at its end.
    from tensorboard.plugins.hparams import api

    folder = run.tensorboard_of("hparams")
    shutil.rmtree(folder, ignore_errors=True)
    with tf.summary.create_file_writer(str(folder)).as_default(step=result["step"]):
        record = Record(run, result)
        # The settings that were changed, or say most.
        names = sorted({*record.main(), "epochs", *record.changed()}.difference(LEFT_OUT))
        values, texts = record.settings.values(), record.flags()
        hparams = {name: values[name] if isinstance(values[name], int | float) else texts[name] for name in names}
        api.hparams(hparams, trial_id=str(run.path))
        for name, value in scores_of(result).items():
            tf.summary.scalar(f"hp/{name}", value)


def scores_of(result):
    """Returns the scores of the best and the final model, such as `best/recall_at_1`."""
    return {
        f"{name}/{metric}": value
        for kind, name in (("best", "best"), ("metrics", "final"))
        for metric, value in result[kind].items()
        if isinstance(value, float)
    }


class TensorBoardLogger:
    """Writes scalars, and the row of TensorBoard's HParams tab."""

    def __init__(self, run):
        self._run, self._folder = run, str(run.tensorboard)
        self._writer = None

    def write(self, step, scalars):
        # At the first of them: the writer makes a file.
        self._writer = self._writer or tf.summary.create_file_writer(self._folder)
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self._writer.flush()

    def finish(self, result):
        write_hparams(self._run, result)


class ClientLogger:
    """Logs with the client of another program, and continues without it if it fails during training.

    The first numbers of a new run come before its first step: if they fail, nothing is lost yet, and the run ends.
    `logger.json` keeps the number that the other program gives the run, so that a run that continues is the same there.
    """

    # As `--logger` takes it, which is the module, too; and the name of the program.
    name = program = ""

    def __init__(self, run):
        self._run = run
        self._begun = self._failed = False

    def write(self, step, scalars):
        self._call(self._write, step, scalars)

    def finish(self, result):
        # The result is on disk.
        self._begun = True
        self._call(self._finish, result)

    def _call(self, log, *arguments):
        if self._failed:
            return
        try:
            log(*arguments)
        except Exception as error:
            if not self._begun:
                if isinstance(error, ValueError):
                    raise
                raise ValueError(f"--logger={self.name} does not log: {error}") from error
            self._failed = True
            # A client tries for minutes before it gives up, at every call.
            message = (
                "--logger=%s has failed (%s) and gets nothing more of this run, which goes on; metrics.jsonl has all "
                "numbers."
            )
            logging.getLogger(__name__).warning(message, self.name, error)
        self._begun = True

    def known_number(self):
        """Returns the number of the run, text; None if the program does not know it yet."""
        path = self._run.logger
        if not path.is_file():
            return None
        record = read_record(path, {"logger": str, "number": str}, "Without it the run is logged anew.")
        return record["number"] if record["logger"] == self.name else None

    def keep_number(self, number):
        self._run.path.mkdir(parents=True, exist_ok=True)
        write_record(self._run.logger, {"logger": self.name, "number": number})


class MLflowLogger(ClientLogger):
    """Logs to MLflow: flags as parameters, scalars as metrics by step, the run directory as a tag.

    MLflow's own variables name the place: `MLFLOW_TRACKING_URI`, or a store in the working directory, and
    `MLFLOW_EXPERIMENT_NAME`, or `tfdml`.
    """

    name, program = "mlflow", "MLflow"
    _client = _number = None

    def _write(self, step, scalars):
        self._begin()
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, int(step)) for name, value in scalars.items()]
        self._client.log_batch(self._number, metrics=metrics)

    def _finish(self, result):
        self._write(result["step"], scores_of(result))
        self._client.set_terminated(self._number, "FINISHED")

    def _begin(self):
        """Makes the run in MLflow, or continues it."""
        if self._client:
            return
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        self._client, self._number = MlflowClient(), self.known_number()
        if self._number is None:
            self._number = self._new()
            self.keep_number(self._number)
            return
        try:
            self._client.update_run(self._number, status="RUNNING")
        except MlflowException as error:
            raise ValueError(
                f"MLflow does not know the run {self._number} of {self._run.path} ({error}). Check "
                f"MLFLOW_TRACKING_URI; without {self._run.logger} the run is logged anew."
            ) from None

    def _new(self):
        """Makes a run with the flags as parameters, and returns its number."""
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        existing = self._client.get_experiment_by_name(name)
        experiment = existing.experiment_id if existing else self._client.create_experiment(name)
        path = self._run.path.absolute()
        number = self._client.create_run(experiment, run_name=path.name, tags={"run_dir": str(path)}).info.run_id
        params = [
            Param(flag, ",".join(map(str, value)) if isinstance(value, tuple) else str(value))
            for flag, value in self._run.settings().values().items()
        ]
        self._client.log_batch(number, params=params)
        return number


class WandbLogger(ClientLogger):
    """Logs to Weights & Biases: flags as the configuration, scalars by step, scores as the summary.

    Its own variables name the place, such as `WANDB_PROJECT`, or `tfdml`, and `WANDB_MODE=offline`.
    """

    name, program = "wandb", "Weights & Biases"

    def _write(self, step, scalars):
        # Steps of its own only grow, and after a checkpoint some come again.
        self._there.log({"step": int(step), **{name: float(value) for name, value in scalars.items()}})

    def _finish(self, result):
        self._there.summary.update(scores_of(result))
        self._there.finish()

    @functools.cached_property
    def _there(self):
        """The run there, a new one or the one that this run continues."""
        import wandb

        number, path = self.known_number(), self._run.path.absolute()
        if number and wandb.run and wandb.run.id == number:
            # Another logger of this process has begun it.
            return wandb.run
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        config = {**self._run.settings().values(), "run_dir": str(path)}
        there = wandb.init(project=project, name=path.name, id=number, resume="allow", config=config)
        there.define_metric("*", step_metric="step")
        self.keep_number(there.id)
        return there


# Each is made of a `RunDirectory`, and has `write(step, scalars)` and `finish(result)`, which another one may call.
LOGGERS = {"tensorboard": TensorBoardLogger, "mlflow": MLflowLogger, "wandb": WandbLogger}


def check_client(name):
    """Raises an ImportError if the client of a logger is missing: before there is a run that would be lost."""
    logger = LOGGERS[name]
    if issubclass(logger, ClientLogger) and importlib.util.find_spec(name) is None:
        raise ImportError(f"--logger={name} needs {logger.program}: pip install 'tfdml[{name}]'.")


def log_result(run, result):
    """Logs the settings and the scores of a complete run, or of an ensemble, whose flags name the logger."""
    LOGGERS[run.settings().run.logger](run).finish(result)


class RunLog:
    """Writes events under the global step to `metrics.jsonl`, and their scalars to the logger that `--logger` names.

    Only the chief of several workers has it `enabled`.
    """

    def __init__(self, run_dir, enabled=True, logger="tensorboard"):
        self.enabled = enabled
        self._events, self._lines = 0, LogLines(run_dir)
        self._logger = LOGGERS[logger](RunDirectory(run_dir)) if enabled else None

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
