"""Callbacks: what happens around the steps."""

from tfdml.callbacks.cluster_labels import ClusterLabels
from tfdml.callbacks.divergence_guard import DivergenceGuard, TrainingDiverged
from tfdml.callbacks.embedding_callback import EmbeddingCallback
from tfdml.callbacks.image_proxies import ImageProxies
from tfdml.callbacks.initial_embedding import InitialEmbedding
from tfdml.callbacks.projector import Projector
from tfdml.callbacks.recluster import Recluster
from tfdml.callbacks.retrieval_evaluation import RetrievalEvaluation
from tfdml.callbacks.sampler_refresh import SamplerRefresh
from tfdml.callbacks.temperature_schedule import TemperatureSchedule
from tfdml.callbacks.waiting_backbone import WaitingBackbone
from tfdml.callbacks.weight_average import WeightAverage

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
