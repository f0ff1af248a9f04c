"""Measures time and size of a report with many test images: `python -m benchmarks.speed.report`.

The embeddings are random, around a center for each class, and the images are repeated images of `pictures`. The network
is small. The times of a larger network, to embed the test images and for the similarity maps of the images on the page,
are not included. The evaluation for the table of scores has its own row.
"""

import argparse
import functools
import io
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import tfdml
from benchmarks.speed.pictures import picture
from benchmarks.speed.reclustering import embeddings_of
from pipelines.dataset import Split
from tfdml.console import flags
from tfdml.registry import create
from tfdml.reporting.run_page import write_page
from tfdml.reporting.subject import Subject
from tfdml.reporting.tables import means_over_queries
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.directory.run_record import Record
from tfdml.run.experiment.experiment import Experiment, set_up
from tfdml.run.experiment.images import ImageData

IMAGE_SIZE = 64
# Pictures that every run has, except `projector`, which is not part of the page.
DRAWN = ("neighbors", "confused", "similarity", "map", "similarities", "recall")


def subject_of(arguments, folder):
    """Returns the `Record` and the `Subject` of a run with random embeddings."""
    given = [f"--image_size={IMAGE_SIZE}", f"--embedding_size={arguments.dim}", "--test_transform=warp"]
    run = RunDirectory(folder)
    run.claim(flags.resolve(given))
    record = Record.of(folder)
    embeddings, labels = embeddings_of(arguments.images, arguments.dim, arguments.classes, seed=0)
    files = np.array([picture(seed) for seed in range(arguments.pictures)], object)
    test = Split(files[np.arange(arguments.images) % len(files)], labels)
    splits = SimpleNamespace(test=test, protocol=tfdml.evaluation.protocols.protocol_of("self_retrieval"))
    settings = record.settings.replace(cache="none")
    strategy = set_up(settings.run)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=4), embedding_size=arguments.dim)
    model(np.zeros([1, IMAGE_SIZE, IMAGE_SIZE, 3], np.float32))
    subject = Subject(Experiment(settings, strategy, splits, ImageData(settings.images, strategy)), model, run, {})
    # These replace the embeddings of the network.
    subject.__dict__["embeddings"] = embeddings
    return record, subject


def timed(function):
    """Returns the CPU time and the wall time of a function in seconds, and its result."""
    cpu, wall = time.process_time(), time.perf_counter()
    with redirect_stdout(io.StringIO()):
        result = function()
    return (time.process_time() - cpu, time.perf_counter() - wall), result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, default=11_000)
    parser.add_argument("--pictures", type=int, default=60, help="Number of different images.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        record, subject = subject_of(arguments, folder)
        parts, drawn = {}, {}
        evaluation, _ = timed(lambda: means_over_queries(subject))
        parts["neighbors of 5,000 queries"], _ = timed(lambda: subject.retrieved)
        for name in DRAWN:
            drawing = create("picture", name)
            parts[f"picture {name}"], paths = timed(functools.partial(drawing.draw, subject, folder))
            drawn |= {path: path.stem for path in paths if drawing.on_page}
        path = folder / "index.html"
        page, _ = timed(lambda: write_page(record, subject, drawn, path))
        # Writing the page includes the evaluation.
        parts["page"] = tuple(both - alone for both, alone in zip(page, evaluation, strict=True))
        parts["all but evaluation"] = tuple(map(sum, zip(*parts.values(), strict=True)))
        for name, (cpu, wall) in {"evaluation": evaluation, **parts}.items():
            print(f"{name:28} {cpu:6.1f} s of CPU time, {wall:6.1f} s")
        print(f"{path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
