"""Callbacks as users make them."""

import keras
import numpy as np

import tfdml
from pipelines.sampling import HardNeighbors, PseudoClasses, PxK, WithinClusters
from tfdml import callbacks

images, labels = np.zeros((64, 32, 32, 3), "float32"), np.repeat(np.arange(16), 4)
model = tfdml.Single(tfdml.backbones.Small())

guard = callbacks.DivergenceGuard(step=lambda: 0)
average = callbacks.WeightAverage(0.999)
with average.applied():
    model.save("averaged.keras")
evaluation = callbacks.RetrievalEvaluation(
    images,
    labels,
    every=100,
    unit="steps",
    measure=lambda embeddings: tfdml.evaluation.evaluate(embeddings, labels),
    patience=5,
    on_evaluation=lambda step, metrics, is_best, seconds: print(step, metrics["recall_at_1"], is_best, seconds),
    average=average,
)
initial = callbacks.InitialEmbedding(images, labels, kind="lda", count=64, verbose=1)
initial.apply(model)
waiting = callbacks.WaitingBackbone(500, step=lambda: 0)
batches = tfdml.data.in_order(images, transform=None)
proxies = callbacks.ImageProxies(batches, labels, seed=1, count=64)
recluster = callbacks.Recluster(images, labels, WithinClusters(PxK()), steps_per_epoch=10, verbose=1)
labelled = callbacks.ClusterLabels(images, PseudoClasses(PxK()), 10, every=2)
refresh = callbacks.SamplerRefresh(images, HardNeighbors(pairs=8))
schedule = callbacks.TemperatureSchedule(first=10.0, last=5.0, steps=1000)
projector = callbacks.Projector("logs", images, labels, class_names=["mug", "cup"], thumbnail=lambda row: images[row])
every = [
    guard,
    average,
    evaluation,
    initial,
    waiting,
    proxies,
    recluster,
    refresh,
    schedule,
    projector,
    keras.callbacks.ReduceLROnPlateau(),
]
model.fit(images, labels, callbacks=every)


class Told(callbacks.EmbeddingCallback):
    """Tells of each epoch."""

    def begin_epoch(self, epoch, goes_on):
        self.tell("epoch", {"epoch": epoch, "size": self.embed().shape[1]})


base = callbacks.EmbeddingCallback(images, count=64, step=lambda: 0)
told = Told(images, steps_per_epoch=10)
raised = callbacks.TrainingDiverged("The loss", step=10)
