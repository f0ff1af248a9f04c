"""Trains a tfdml model with `model.fit` on Keras' backend for `step`."""

import json
import resource
import time

from benchmarks.speed.step_of_torch import CLASSES, DIMENSIONS, PER_CLASS
from benchmarks.speed.step_worker import WARM_UP


def main(backbone, size, folder, steps):
    """Prints the wall time and the CPU time of a step. KERAS_BACKEND chooses the backend.

    Args:
        backbone: spec of the backbone.
        size: side length of the images in pixels.
        folder: folder with a subfolder of JPEG files per class.
        steps: number of steps to measure.
    """
    from pathlib import Path

    import tfdml
    from tfdml import registry

    paths = sorted(Path(folder).glob("*/*"))
    labels = [path.parent.name for path in paths]
    network = registry.create("backbone", backbone)
    model = tfdml.Single(network, embedding_size=DIMENSIONS, freeze_batch_norm="statistics")
    model.compile("adam", "triplet(margin=0.2, mining='semi_hard', distance='euclidean')")
    model.build((None, size, size, 3))
    of = {"classes": CLASSES, "per_class": PER_CLASS, "backbone": network, "image_size": size}
    clocks = []
    # The first pass compiles the step.
    for count in (WARM_UP, steps):
        batches = tfdml.data.pxk(paths, labels, steps_per_epoch=count, **of)
        begun = _clocks()
        model.fit(batches, shuffle=False, verbose=0)
        clocks = [end - begin for begin, end in zip(begun, _clocks(), strict=True)]
    print(json.dumps({"seconds": clocks[0] / steps, "cpu_seconds": clocks[1] / steps}))


def _clocks():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime
