"""Measures an evaluation between epochs: `python -m benchmarks.speed.between_epochs`, with the extra cpu.

It embeds JPEG files as a run does during training: in the first evaluation, which decodes them, and in later
evaluations, when the images are in memory. It also measures the forward pass alone on the same batches in memory, and
batches of another size. The command prints a Markdown table of the medians over rounds, in which everything runs in
turn in one process.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.speed.pictures import write_pictures

ALONE = "forward pass alone"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256, help="Number of photos.")
    parser.add_argument("--size", type=int, default=128, help="Side length of the network's images in pixels.")
    parser.add_argument("--backbone", default="keras_applications(name='MobileNetV2', alpha=0.35)")
    parser.add_argument("--other_batch", type=int, default=32, help="The other --eval_batch_size.")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_pictures(Path(folder), arguments.images)
        found = measured(folder, arguments)
    rows = []
    for name, times in found.items():
        cells = []
        for kind in (0, 1):
            ratio = statistics.median(one[kind] / other[kind] for one, other in zip(times, found[ALONE], strict=True))
            cells += [f"{statistics.median(each[kind] for each in times):.2f}", f"{ratio:.2f}"]
        rows.append([name, *cells])
    print(
        markdown(["Stage", "Seconds", "Relative to the pass alone", "CPU seconds", "Relative to the pass alone"], rows)
    )


def measured(folder, arguments):
    """Returns a dictionary from each measurement to a list of `(seconds, CPU seconds)` with one pair per round."""
    # These imports are late only in commands.
    import numpy as np
    import tensorflow as tf

    from pipelines.datasets import Split
    from tfdml import Single, registry
    from tfdml.console.settings import ImageSettings
    from tfdml.evaluation import Embedder
    from tfdml.run.experiment.experiment import start_tensorflow
    from tfdml.run.experiment.images import ImageData

    strategy = start_tensorflow("auto", True)
    files = np.array(sorted(map(str, Path(folder).iterdir())), object)
    split = Split(files, np.arange(len(files)) // 4)
    model = Single(backbone=registry.create("backbone", arguments.backbone), embedding_size=128)

    def batches(again, **settings):
        images = ImageData(ImageSettings(image_size=arguments.size, **settings), strategy)
        return images.evaluation(split, model, again=again)

    def in_memory(dataset):
        return tf.data.Dataset.from_tensor_slices(np.stack(list(dataset)))

    embedder = Embedder(model, verbose=0)
    pixels, others = (
        in_memory(batches(again=False, **sizes)) for sizes in ({}, {"eval_batch_size": arguments.other_batch})
    )
    # This call traces the function for batches of both sizes.
    for images in (pixels, others):
        embedder(images, len(split))
    found = {}
    for number in range(arguments.rounds):
        kept = batches(again=True)
        passes = {
            ALONE: pixels,
            "first evaluation": kept,
            "later evaluations": kept,
            f"{ALONE}, batches of {arguments.other_batch}": others,
        }
        for name, images in passes.items():
            found.setdefault(name, []).append(seconds(embedder, images, len(split)))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return found


def seconds(function, *arguments):
    """Returns the seconds and CPU seconds that a function takes."""
    began, cpu_began = time.perf_counter(), time.process_time()
    function(*arguments)
    return time.perf_counter() - began, time.process_time() - cpu_began


if __name__ == "__main__":
    main()
