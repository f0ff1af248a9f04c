"""The log of a run, and loggers for TensorBoard, MLflow and Weights & Biases."""

import functools
import importlib.util
import json
import logging
import os
import shutil
import time

from pipelines.operations import tf
from tfdml.console.settings import names_with
from tfdml.files.checked import naming, read_record, write_record
from tfdml.run.directory.run_directory import LogLines, RunDirectory
from tfdml.run.directory.run_record import Record

# Flags on where and how a run computes, which change no result, or only what is measured.
LEFT_OUT = names_with(changes_result=False)
# Name of the project or experiment unless an environment variable sets another one.
PROJECT = "tfdml"


def write_hparams(run, result):
    """Writes the settings and the scores of a complete run for TensorBoard's HParams tab.

    They have a separate folder, so that the tab shows these scores instead of all curves. If an ensemble is joined
    again, its new scores replace the old ones.
    """
    # Imported here, because a run needs it only at its end.
    from tensorboard.plugins.hparams import api

    folder = run.tensorboard_of("hparams")
    shutil.rmtree(folder, ignore_errors=True)
    with tf.summary.create_file_writer(str(folder)).as_default(step=result["step"]):
        record = Record(run, result)
        # These are the most informative settings and all settings that differ from their default.
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
    """Writes scalars for TensorBoard, and a row for its HParams tab."""

    def __init__(self, run):
        self._run, self._folder = run, str(run.tensorboard)
        self._writer = None

    def write(self, step, scalars):
        # The writer is created for the first scalars, because it creates a file.
        self._writer = self._writer or tf.summary.create_file_writer(self._folder)
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self._writer.flush()

    def finish(self, result):
        write_hparams(self._run, result)


class ClientLogger:
    """Base of loggers that use the client of another program. If the client fails during training, training continues.

    The first values of a new run are logged before its first step. If that fails, nothing is lost yet, and the run
    ends. `logger.json` stores the id of the run in the other program, so that a resumed run continues there.
    """

    # The value of `--logger`, which is also the name of the module, and the name of the program.
    name = program = ""

    def __init__(self, run):
        self._run = run
        self._begun = self._failed = False

    def write(self, step, scalars):
        self._call(self._write, step, scalars)

    def finish(self, result):
        # An error must not end the run.
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
                raise ValueError(f"--logger={self.name} cannot log: {error}") from error
            self._failed = True
            # The client is not called again, because it would retry for minutes at every call.
            message = "--logger=%s failed (%s). Training continues without it, and metrics.jsonl contains all values."
            logging.getLogger(__name__).warning(message, self.name, error)
        self._begun = True

    def known_number(self):
        """Returns the id of the run as text, or None if the program does not have the run yet."""
        path = self._run.logger
        if not path.is_file():
            return None
        record = read_record(path, {"logger": str, "number": str}, "If you remove it, the run is logged as a new run.")
        return record["number"] if record["logger"] == self.name else None

    def keep_number(self, number):
        self._run.path.mkdir(parents=True, exist_ok=True)
        write_record(self._run.logger, {"logger": self.name, "number": number})


class MLflowLogger(ClientLogger):
    """Logs to MLflow: flags as parameters, scalars as metrics by step, the run directory as a tag.

    MLflow's environment variables determine where: `MLFLOW_TRACKING_URI` (by default a store in the working directory)
    and `MLFLOW_EXPERIMENT_NAME` (by default `tfdml`).
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
        """Creates the run in MLflow, or continues it."""
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
                f"MLflow does not have the run {self._number} of {self._run.path} ({error}). Check "
                f"MLFLOW_TRACKING_URI. To log a new run, remove {self._run.logger}."
            ) from None

    def _new(self):
        """Creates a run with the flags as parameters and returns its id."""
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

    Its environment variables determine where, for example `WANDB_PROJECT` (by default `tfdml`) and
    `WANDB_MODE=offline`.
    """

    name, program = "wandb", "Weights & Biases"

    def _write(self, step, scalars):
        # W&B's own step cannot decrease, but a run that resumes from a checkpoint repeats some steps.
        self._there.log({"step": int(step), **{name: float(value) for name, value in scalars.items()}})

    def _finish(self, result):
        self._there.summary.update(scores_of(result))
        self._there.finish()

    @functools.cached_property
    def _there(self):
        """The run in Weights & Biases, which is new or was created before this run resumed."""
        import wandb

        number, path = self.known_number(), self._run.path.absolute()
        if number and wandb.run and wandb.run.id == number:
            # Another logger of this process has created it.
            return wandb.run
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        config = {**self._run.settings().values(), "run_dir": str(path)}
        there = wandb.init(project=project, name=path.name, id=number, resume="allow", config=config)
        there.define_metric("*", step_metric="step")
        self.keep_number(there.id)
        return there


# Each is created from a `RunDirectory` and has `write(step, scalars)` and `finish(result)`. A different object for the
# same run may call `finish`.
LOGGERS = {"tensorboard": TensorBoardLogger, "mlflow": MLflowLogger, "wandb": WandbLogger}


def check_client(name):
    """Raises an ImportError if the client of a logger is missing. Call it before training, so that no run is lost."""
    logger = LOGGERS[name]
    if issubclass(logger, ClientLogger) and importlib.util.find_spec(name) is None:
        raise ImportError(f"--logger={name} needs {logger.program}. Install it with: pip install 'tfdml[{name}]'.")


def log_result(run, result):
    """Logs the settings and the scores of a complete run or ensemble with the logger that its flags name."""
    LOGGERS[run.settings().run.logger](run).finish(result)


class RunLog:
    """Writes events with the global step to `metrics.jsonl`, and their scalars to the logger that `--logger` names.

    If there are several workers, it is `enabled` only on the chief.
    """

    def __init__(self, run_dir, enabled=True, logger="tensorboard"):
        self.enabled = enabled
        self._events, self._lines = 0, LogLines(run_dir)
        self._logger = LOGGERS[logger](RunDirectory(run_dir)) if enabled else None

    def write(self, event, step, values, **more):
        """Appends an event. Numbers in `values` become scalars `event/name`."""
        begins = not self._events
        self._events += 1
        if not self.enabled:
            return
        line = json.dumps({"event": event, "step": step, **more, **values})
        with naming(self._lines.path):
            if begins:
                # Existing lines belong to a run that ended before its first checkpoint.
                self._lines.keep([])
            self._lines.append(f"{line}\n".encode())
        # A metric may have no value, such as the distance of pairs in a batch without pairs.
        self._logger.write(step, {f"{event}/{name}": value for name, value in values.items() if value is not None})

    def get_state(self):
        return {"events": self._events}

    def set_state(self, state):
        """Removes the events after the state, because the steps that wrote them are repeated.

        TensorBoard drops such events when an earlier step follows. With `--load_fast=false`, it shows both.
        """
        self._events = state["events"]
        if not self.enabled:
            return
        lines = self._lines.read()
        if len(lines) < self._events:
            # With a checksum, reading would have failed. Somebody has removed both.
            lost = self._events - len(lines)
            logging.getLogger(__name__).warning("%s lacks %d events, so curves have a gap.", self._lines.path, lost)
            self._events = len(lines)
        if lines:
            self._lines.keep(lines[: self._events])
