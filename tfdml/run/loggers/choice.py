"""Loggers by the names that `--logger` takes."""

import importlib.util

from tfdml.run.loggers.forgiving_logger import ForgivingLogger
from tfdml.run.loggers.mlflow_logger import MLflowLogger
from tfdml.run.loggers.tensorboard_logger import TensorBoardLogger
from tfdml.run.loggers.wandb_logger import WandbLogger

# Each is made of a `RunDirectory`, and has `write(step, scalars)` and `finish(result)`, which another one may call.
LOGGERS = {"tensorboard": TensorBoardLogger, "mlflow": MLflowLogger, "wandb": WandbLogger}
# Those with a client that is not installed along: the module, and its name.
CLIENTS = {"mlflow": "MLflow", "wandb": "Weights & Biases"}


def check_client(name):
    """Raises an ImportError if the client of a logger is missing: before there is a run that would be lost."""
    if name in CLIENTS and importlib.util.find_spec(name) is None:
        raise ImportError(f"--logger={name} needs {CLIENTS[name]}: pip install 'tfdml[{name}]'.")


def make_logger(run, name):
    """Returns the logger of a name for a `RunDirectory`."""
    logger = LOGGERS[name](run)
    return ForgivingLogger(logger, name) if name in CLIENTS else logger


def log_result(run, result):
    """Logs the settings and the scores of a complete run, or of an ensemble.

    Args:
        run: `RunDirectory`, whose flags name the logger.
        result: its result.
    """
    make_logger(run, run.settings().run.logger).finish(result)
