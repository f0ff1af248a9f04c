"""Callbacks with a mistake in each marked line."""

import numpy as np

import tfdml
from pipelines.sampling import HardNeighbors, PxK, WithinClusters
from tfdml import callbacks

images, labels = np.zeros((64, 32, 32, 3), "float32"), np.repeat(np.arange(16), 4)
model = tfdml.Single(tfdml.backbones.Small())

callbacks.DivergenceGuard(steps=1)  # marked
callbacks.DivergenceGuard(step=1)  # marked
callbacks.WeightAverage("0.999")  # marked
callbacks.RetrievalEvaluation(images)  # marked
callbacks.RetrievalEvaluation(images, labels, unit="batches")  # marked
callbacks.RetrievalEvaluation(images, labels, average=0.999)  # marked
callbacks.RetrievalEvaluation("images", labels)  # marked
callbacks.InitialEmbedding(images, kind="ica")  # marked
callbacks.WaitingBackbone("500")  # marked
callbacks.ImageProxies(images, labels, seeds=1)  # marked
callbacks.Recluster(images, labels, WithinClusters(PxK()), step_per_epoch=10)  # marked
callbacks.Recluster(images, labels)  # marked
callbacks.SamplerRefresh(images, HardNeighbors(), verbose="loud")  # marked
callbacks.ClusterLabels(images, HardNeighbors(), k=10)  # marked
callbacks.TemperatureSchedule(first=10.0, last=5.0)  # marked
callbacks.TemperatureSchedule(first="10", last=5.0, steps=1000)  # marked
callbacks.Projector("logs", images, labels, thumbnails=None)  # marked
callbacks.EmbeddingCallback(images, 64, 10)  # marked
callbacks.TrainingDiverged("The loss")  # marked
callbacks.RetrievalEvaluations(images, labels)  # marked
model.fit(images, labels, callbacks=[labels])  # marked
