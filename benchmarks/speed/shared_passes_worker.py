"""A process of `shared_passes`, alone or one of several workers."""

import json
import os
import sys
import time

EXCHANGE = "exchanging embeddings"


def main(about):
    about = json.loads(about)
    # This must happen before TensorFlow and NumPy count the cores.
    os.sched_setaffinity(0, about["cores"])
    import numpy as np

    import tfdml
    from benchmarks.speed.pictures import picture
    from pipelines.build import evaluation_batches
    from pipelines.datasets import Split
    from pipelines.preprocessor import Preprocessor
    from tfdml.evaluation import Embedder
    from tfdml.evaluation.evaluate import measure
    from tfdml.evaluation.metrics import metrics_of
    from tfdml.evaluation.queries import RetrievalTask
    from tfdml.neighbors.clustering import kmeans
    from tfdml.neighbors.nearest import nearest_negatives
    from tfdml.runtime.devices import strategy_for
    from tfdml.runtime.workers import Workers

    strategy = strategy_for(about["devices"])
    workers = Workers.of(strategy)
    with strategy.scope():
        model = tfdml.Single(tfdml.backbones.Small(), embedding_size=about["dim"])
        model(np.zeros((1, 64, 64, 3), np.float32))
    images = np.array([picture(number % 64) for number in range(about["images"])], object)
    prepare = Preprocessor("warp", image_size=64, mean=(127.5,) * 3, std=(127.5,) * 3)
    split = Split(images, np.zeros(len(images), np.int64))
    batches = evaluation_batches(split, prepare, batch_size=64, share=workers.share)
    embedder = Embedder(model, verbose=0)
    random = np.random.default_rng(0)
    labels = np.arange(about["rows"]) // 5
    centers = random.normal(size=(labels[-1] + 1, about["dim"]))
    rows = (centers[labels] + random.normal(size=(len(labels), about["dim"]))).astype(np.float32)
    share = rows[slice(workers.share(len(rows)).start, workers.share(len(rows)).stop)]
    task, metrics = RetrievalTask.of(labels), metrics_of(("recall_at_1", "map_at_r"))
    stages = {
        "embedding": lambda: embedder(batches, len(split)),
        EXCHANGE: lambda: workers.gather(lambda: (share,)),
        "K-means, by the first worker": lambda: workers.from_first(lambda: kmeans(rows, 32, seed=0)[:1]),
        "counting ranks": lambda: measure(rows, task, metrics, workers=workers),
        "searching hard neighbors": lambda: nearest_negatives(rows, labels, 10, workers=workers),
    }
    for _ in sys.stdin:
        print(json.dumps({name: _seconds(stage) for name, stage in stages.items()}), flush=True)


def _seconds(stage):
    began = time.perf_counter()
    stage()
    return time.perf_counter() - began
