"""`MLflowLogger`: curves in MLflow."""

import os
import time

from tfdml.run.directory.hparams import scores_of
from tfdml.run.loggers.known_run import KnownRun

EXPERIMENT = "tfdml"


class MLflowLogger:
    """Logs to MLflow: flags as parameters, scalars as metrics by step, the run directory as a tag.

    Where to, MLflow's own variables say: `MLFLOW_TRACKING_URI`, or a store in the working directory, and
    `MLFLOW_EXPERIMENT_NAME`, or `tfdml`. A run that goes on is the same run there.

    Args:
        run: `RunDirectory`.
    """

    def __init__(self, run):
        self._run, self._known = run, KnownRun(run, "mlflow")
        self._client = self._number = None

    def write(self, step, scalars):
        """Logs numbers by their names."""
        self._begin()
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, int(step)) for name, value in scalars.items()]
        self._client.log_batch(self._number, metrics=metrics)

    def finish(self, result):
        """Logs the scores of a complete run, and ends it."""
        self.write(result["step"], scores_of(result))
        self._client.set_terminated(self._number, "FINISHED")

    def _begin(self):
        """Makes the run in MLflow, or goes on with it."""
        if self._client:
            return
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        self._client, self._number = MlflowClient(), self._known.number()
        if self._number is None:
            self._number = self._new()
            self._known.keep(self._number)
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

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self._client.create_experiment(name)
        path = self._run.path.absolute()
        made = self._client.create_run(experiment, run_name=path.name, tags={"run_dir": str(path)})
        number = made.info.run_id
        values = self._run.settings().values()
        self._client.log_batch(number, params=[Param(flag, _text(value)) for flag, value in values.items()])
        return number


def _text(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
