"""Callbacks: what happens around the steps."""

from tfdml.callbacks.bad_images import BadImages
from tfdml.callbacks.divergence_guard import DivergenceGuard, TrainingDiverged
from tfdml.callbacks.epoch_log import EpochLog
from tfdml.callbacks.progress import Progress
from tfdml.callbacks.projector import Projector
from tfdml.callbacks.recluster import Recluster
from tfdml.callbacks.retrieval_evaluation import RetrievalEvaluation
from tfdml.callbacks.run_checkpoint import RunCheckpoint
from tfdml.callbacks.run_log import RunLog
from tfdml.callbacks.stop_request import StopRequest, TrainingStopped
from tfdml.callbacks.temperature_schedule import TemperatureSchedule
from tfdml.callbacks.weight_average import WeightAverage

__all__ = [
    "BadImages",
    "DivergenceGuard",
    "EpochLog",
    "Progress",
    "Projector",
    "Recluster",
    "RetrievalEvaluation",
    "RunCheckpoint",
    "RunLog",
    "StopRequest",
    "TemperatureSchedule",
    "TrainingDiverged",
    "TrainingStopped",
    "WeightAverage",
]
