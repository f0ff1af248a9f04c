"""Embeds files for `bulk_embedding`: reads a JSON question per line and prints a JSON answer per line."""

import functools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

BATCH = 64
# Files per shard on Beam. Each of two processes gets several shards, even if there are few files.
SHARD = 32
BEAM = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]


@functools.cache
def exported_model(path):
    from tfdml.serving import ExportedModel

    return ExportedModel(path)


def embed(model, files, **options):
    """Embeds as the command `python -m tfdml.embed` does, with a model that is loaded once."""
    from tfdml.serving import bulk_embedding
    from tfdml.serving.image_list import ImageList

    bulk_embedding.ExportedModel = exported_model
    with tempfile.TemporaryDirectory() as out:
        images = ImageList(files, [None] * len(files))
        return len(bulk_embedding.embed_images(f"{out}/embedded", images, model=model, **options))


def on_beam(model, files):
    return embed(model, files, shard_rows=SHARD, runner="DirectRunner", options=BEAM)


def file_by_file(model, files):
    return len(_signature_on(model, files, 1))


def batches_of_files(model, files):
    return len(_signature_on(model, files, BATCH))


def _signature_on(model, files, size):
    import numpy as np
    import tensorflow as tf

    found, serve = [], exported_model(model).signatures["serving_default"]
    for start in range(0, len(files), size):
        contents = [Path(file).read_bytes() for file in files[start : start + size]]
        found.append(serve(image_bytes=tf.constant(contents))["embedding"].numpy())
    return np.concatenate(found)


def batches_of_pixels(model, files):
    """Embeds batches of pixels from `resize_short(size=256)|center_crop`, computed by Pillow."""
    import numpy as np
    import tensorflow as tf
    from PIL import Image

    from benchmarks.speed.bulk_embedding import SIDE

    def pixels(file):
        image = Image.open(file).convert("RGB")
        scale = 256 / min(image.size)
        image = image.resize([round(side * scale) for side in image.size], Image.BILINEAR)
        left, top = ((side - SIDE) // 2 for side in image.size)
        return np.asarray(image.crop((left, top, left + SIDE, top + SIDE)), np.float32)

    found, serve = [], exported_model(model).signatures["embed_images"]
    for start in range(0, len(files), BATCH):
        images = np.stack([pixels(file) for file in files[start : start + BATCH]])
        found.append(serve(images=tf.constant(images))["embedding"].numpy())
    return len(np.concatenate(found))


ENGINES = {
    "embed": embed,
    "beam": on_beam,
    "files": file_by_file,
    "batches": batches_of_files,
    "pillow": batches_of_pixels,
}


def cpu_seconds():
    """Returns the CPU seconds of this process and of the processes that it has started and waited for."""
    return sum(os.times()[:4])


def main(engine):
    import tfdml  # noqa: F401

    run, answers = ENGINES[engine], sys.stdout
    # Lines about the progress.
    sys.stdout = sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        files = sorted(str(path) for path in Path(question["folder"]).iterdir())[: question["count"]]
        cpu, wall = cpu_seconds(), time.perf_counter()
        done = run(question["model"], files)
        if done != len(files):
            raise RuntimeError(f"{engine} embedded {done} of {len(files)} files.")
        took = {"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}
        print(json.dumps(took), file=answers, flush=True)
