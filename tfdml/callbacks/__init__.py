"""Keras callbacks that evaluate, initialize, guard and schedule the training of embedding models."""

from tfdml.callbacks.base import EmbeddingCallback
from tfdml.callbacks.clusters import ClusterLabels, Recluster, SamplerRefresh
from tfdml.callbacks.initial_embedding import InitialEmbedding
from tfdml.callbacks.projector import Projector
from tfdml.callbacks.proxies import ImageProxies
from tfdml.callbacks.retrieval_evaluation import DivergenceGuard, RetrievalEvaluation, TrainingDiverged
from tfdml.callbacks.schedules import TemperatureSchedule, WaitingBackbone, WeightAverage

__all__ = [
    "ClusterLabels",
    "DivergenceGuard",
    "EmbeddingCallback",
    "ImageProxies",
    "InitialEmbedding",
    "Projector",
    "Recluster",
    "RetrievalEvaluation",
    "SamplerRefresh",
    "TemperatureSchedule",
    "TrainingDiverged",
    "WaitingBackbone",
    "WeightAverage",
]
