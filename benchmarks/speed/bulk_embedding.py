"""Compares `tfdml.embed` with plain loops over a SavedModel: `python -m benchmarks.speed.bulk_embedding`.

It embeds JPEG files of about 500 × 375 pixels with an untrained network at 224 pixels, with the command and, with the
extra beam, on Apache Beam's DirectRunner with two processes. The loops are typical hand-written code: they read a file,
call the signature and keep the embedding; do the same with a batch of files; or use a batch that Pillow decodes and
resizes. All variants run in turn, each in its own process. The process has already loaded the model. The time for a few
images, in which Beam's processes load the model, is subtracted. The command prints a Markdown table of medians over
rounds, with times per image and the ratio to the command.
"""

import argparse
import importlib.util
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.speed.pictures import write_pictures
from benchmarks.speed.worker import Worker

SIDE = 224
NETWORKS = ["keras_applications(name='MobileNetV2', alpha=0.35)", "resnet18"]
# Names of the rows of the table, with their functions in the worker.
ENGINES = {
    "`tfdml.embed`": "embed",
    "the signature, file by file": "files",
    "the signature, batches of 64 files": "batches",
    "Pillow, batches of 64 images": "pillow",
    "`tfdml.embed`, DirectRunner": "beam",
}


def write_model(network, folder):
    """Exports an untrained model and returns its path."""
    import numpy as np

    import tfdml
    from pipelines.preprocessing import preprocessing_of
    from pipelines.preprocessor import Preprocessor
    from tfdml.serving import export

    model = tfdml.Single(tfdml.registry.create("backbone", network), embedding_size=128)
    model(np.zeros([1, SIDE, SIDE, 3], np.float32))
    prepare = Preprocessor("resize_short(size=256)|center_crop", image_size=SIDE, **preprocessing_of(model))
    export(model, prepare, folder / "model")
    return str(folder / "model")


def measured(asked, few, count, rounds):
    """Returns a dictionary from each engine to its CPU and wall seconds per image in each round."""
    engines = {name: engine for name, engine in ENGINES.items() if engine != "beam" or _has_beam()}
    workers = {name: Worker("bulk_embedding_worker", engine, {}) for name, engine in engines.items()}
    found = {name: [] for name in engines}
    for worker in workers.values():
        worker.ask(count=few, **asked)
    for _ in range(rounds):
        for name, worker in workers.items():
            first, all_of_them = (worker.ask(count=each, **asked) for each in (few, count))
            found[name].append([(all_of_them[kind] - first[kind]) / (count - few) for kind in ("cpu", "wall")])
            cpu, wall = (1000 * each for each in found[name][-1])
            print(f"{name}: {cpu:.1f} ms of CPU time, {wall:.1f} ms", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.end()
    return found


def rows_of(network, found):
    own = found["`tfdml.embed`"]
    for name, passes in found.items():
        times = [f"{1000 * statistics.median(each):.1f} ms" for each in zip(*passes, strict=True)]
        ratios = [[other / mine for mine, other in zip(*pair, strict=True)] for pair in zip(own, passes, strict=True)]
        beside = [f"{statistics.median(each):.2f}" for each in zip(*ratios, strict=True)]
        yield [f"`{network}`, {name}", *times, *beside]


def _has_beam():
    return importlib.util.find_spec("apache_beam") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512, help="Number of images.")
    parser.add_argument("--few", type=int, default=128, help="Number of images in the run that is subtracted.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures everything.")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--folder", default="runs/benchmarks/pictures", help="Folder that keeps the images.")
    arguments = parser.parse_args()
    pictures = Path(arguments.folder) / str(arguments.images)
    write_pictures(pictures, arguments.images)
    rows = []
    for network in arguments.networks:
        with tempfile.TemporaryDirectory() as folder:
            asked = {"model": write_model(network, Path(folder)), "folder": str(pictures)}
            rows += rows_of(network, measured(asked, arguments.few, arguments.images, arguments.rounds))
    print(markdown(["Method", "CPU time per image", "Time", "Relative CPU time", "Relative time"], rows))


if __name__ == "__main__":
    main()
