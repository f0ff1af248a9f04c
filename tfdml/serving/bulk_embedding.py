"""Embeds many images into a folder of Parquet files."""

from pathlib import Path

from tfdml.progress_bar import ProgressBar
from tfdml.serving.embedding_job import MANIFEST, PLAN, EmbeddingJob
from tfdml.serving.embedding_pass import embed_rows
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.folder_lock import LOCK, locked
from tfdml.serving.model_files import model_hash


def embed_images(out, images, *, model, shard_rows=4096, batch_size=64):
    """Embeds images, or what is missing of them where this was interrupted; returns the `EmbeddingShards`.

    Args:
        out: folder to write.
        images: `ImageList`.
        model: folder of the exported model.
        shard_rows: images of a shard.
        batch_size: images that the model processes at once.
    """
    out, digest = Path(out), model_hash(model)
    _check_target(out)
    embedder = ExportedModel(model)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out, "folder of embeddings"):
        job = EmbeddingJob.of(out, images, model=digest, dimension=embedder.dimension, shard_rows=shard_rows)
        job.begin(images)
        _embed_missing(job, images, embedder, batch_size)
        return job.finish()


def _embed_missing(job, images, embedder, batch_size):
    missing = job.missing()
    if not missing:
        return
    left = sum(len(job.rows(number)) for number in missing)
    bar = ProgressBar(len(images), "image", done=len(images) - left)
    for number in missing:
        part = images.part(job.rows(number))
        found = embed_rows(part, range(len(part)), embedder, on_batch=bar.add, batch_size=batch_size)
        job.write(number, part, *found)


def _check_target(out):
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out={out} is a file; give a folder.")
    names = {entry.name for entry in out.iterdir()} if out.is_dir() else set()
    if names - {LOCK} and not names & {PLAN, MANIFEST}:
        raise ValueError(f"--out={out} is not empty and holds no embeddings; give a new folder.")
