"""Embeds many images into a folder of Parquet files."""

import functools
import os
import time
from pathlib import Path

from pipelines.stored import local
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import LOCK, locked, naming, write_record
from tfdml.files.shards import MANIFEST, PLAN, SPEED, EmbeddingJob
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel, model_hash, saved_model_folder

# The only value of --runner that is not the name of an Apache Beam runner.
SPARK = "spark"


def embed_images(out, images, *, model, shard_rows=4096, dtype="float32", batch_size=None, runner="", options=()):
    """Embeds an `ImageList`, or what is missing after an interruption. Returns the `EmbeddingShards`.

    `model` is the folder of an exported model, `shard_rows` is the number of images per shard, `dtype` is the type of
    the stored embeddings, one of `DTYPES`, and `batch_size` is passed to `embed_into`. `runner` is `spark` or the name
    of an Apache Beam runner, with options such as `--direct_num_workers=2`. If it is empty, this process embeds the
    images.
    """
    embed_on_engine = _engine(runner) if runner else None
    model = saved_model_folder(model)
    # Beam and Spark workers may have other working directories, so the paths must be absolute.
    out, digest = Path(os.path.abspath(local(out, "--out="))), model_hash(model)
    _check_target(out)
    embedder = ExportedModel(model)
    out.mkdir(parents=True, exist_ok=True)
    with naming(out), locked(out, "folder of embeddings"):
        about = {"model": digest, "dimension": embedder.dimension, "shard_rows": shard_rows, "dtype": dtype}
        job = EmbeddingJob.of(out, images, **about)
        job.begin(images)
        if embed_on_engine:
            embed_on_engine(job, images, os.path.abspath(model), batch_size=batch_size, options=options)
        else:
            _embed_missing(job, images, embedder, batch_size)
        shards = job.finish()
    if not len(shards):
        path, reason = min(shards.bad.items())
        raise ValueError(
            f"None of the images can be read, for example {path}: {reason}. Remove {out}, which contains no embeddings."
        )
    return shards


def _embed_missing(job, images, embedder, batch_size):
    """Embeds the images of missing shards and writes the speed."""
    missing, ends = job.missing(), []
    if not missing:
        return

    def on_batch(count):
        bar.add(count)
        ends.append((time.monotonic(), count))

    left = sum(len(job.rows(number)) for number in missing)
    bar = ProgressBar(len(images), "image", done=len(images) - left)
    for number in missing:
        part = images.part(job.rows(number))
        found = embed_rows(part, range(len(part)), embedder, on_batch=on_batch, batch_size=batch_size)
        job.write(number, part, *found)
    # The first batch is slower, because TensorFlow prepares the model.
    seconds = ends[-1][0] - ends[0][0]
    if seconds:
        write_record(job.folder / SPEED, {"images_per_second": sum(count for _, count in ends[1:]) / seconds})


def _engine(runner):
    """Imports the module for a runner and returns its function, so that the other extra need not be installed."""
    extra, package = ("spark", "pyspark") if runner == SPARK else ("beam", "apache_beam")
    try:
        if runner == SPARK:
            from tfdml.serving.spark import embed_on_spark

            return embed_on_spark
        from tfdml.serving.beam import embed_on_beam

        return functools.partial(embed_on_beam, runner=runner)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ImportError(f"--runner={runner} needs Apache {extra.title()}: pip install 'tfdml[{extra}]'.") from None


def _check_target(out):
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out={out} is a file. Use a folder.")
    entries = out.iterdir() if out.is_dir() else ()
    # A process that is killed at the very start leaves the file that it was writing.
    names = {entry.name for entry in entries if not entry.name.startswith(".writing-")}
    if names - {LOCK} and not names & {PLAN, MANIFEST}:
        raise ValueError(f"--out={out} is not empty and contains no embeddings. Use a new folder.")
