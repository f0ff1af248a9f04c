"""Embeds on Apache Beam, each shard by some worker."""

import apache_beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

# Registers itself.
import tfdml.serving.embedding.beam_workers  # noqa: F401
from tfdml.serving.embedding.embedding_pass import embed_rows
from tfdml.serving.exported.exported_model import ExportedModel


class ShardEmbedder(ModelHandler):
    """Embeds shards by an exported model, which each process of Beam loads once.

    Args:
        model: folder of the model.
        batch_size: see `embed_images`.
    """

    def __init__(self, model, batch_size):
        # A shard is a list of images already.
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._model, self._batch_size = model, batch_size

    def load_model(self):
        return ExportedModel(self._model)

    def run_inference(self, batch, model, inference_args=None):
        """Yields number, `ImageList`, and what `embed_rows` returns, of each `(number, ImageList)`."""
        for number, images in batch:
            yield number, images, *embed_rows(images, range(len(images)), model, batch_size=self._batch_size)


def embed_on_beam(job, images, model, *, runner, batch_size, options):
    """Writes the missing shards of a job.

    Args:
        job: `EmbeddingJob` whose folder all workers can write to.
        images: `ImageList` of files that all workers can read.
        model: folder of the exported model, likewise.
        runner: name of a runner, such as `DirectRunner`.
        batch_size: see `embed_images`.
        options: list of texts, such as `--direct_num_workers=2`.
    """
    parts = [(number, images.part(job.rows(number))) for number in job.missing()]
    if not parts:
        return
    try:
        with apache_beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options])) as pipeline:
            (
                pipeline
                | apache_beam.Create(parts)
                # Else one worker gets all shards.
                | apache_beam.Reshuffle()
                | RunInference(ShardEmbedder(model, batch_size))
                | apache_beam.MapTuple(job.write)
            )
    # A runner wraps what a worker raises, each in its own way.
    except Exception as error:
        last = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"Apache Beam failed: {last[-1]} (--debug shows where)") from error
