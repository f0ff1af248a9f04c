"""Embeds images with Apache Beam, which distributes the shards among its workers."""

import threading

import apache_beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import SubprocessSdkWorkerHandler, WorkerHandler
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker

from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel


class ShardEmbedder(ModelHandler):
    """Beam handler that embeds shards with an exported model, which each Beam process loads once."""

    def __init__(self, model, batch_size):
        # A shard is already a list of images, so Beam should not combine several shards.
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._model, self._batch_size = model, batch_size

    def load_model(self):
        return ExportedModel(self._model)

    def run_inference(self, batch, model, inference_args=None):
        """Yields `(number, images, *result)` for each `(number, ImageList)`, with the result of `embed_rows`."""
        for number, images in batch:
            yield number, images, *embed_rows(images, range(len(images)), model, batch_size=self._batch_size)


def embed_on_beam(job, images, model, *, runner, batch_size, options):
    """Writes the missing shards of an `EmbeddingJob` with a Beam runner, such as `DirectRunner`, and its options.

    All workers must be able to read the images, an `ImageList` of files, and the model folder, and to write to the
    job's folder.
    """
    parts = [(number, images.part(job.rows(number))) for number in job.missing()]
    if not parts:
        return
    try:
        with apache_beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options])) as pipeline:
            (
                pipeline
                | apache_beam.Create(parts)
                # Without this, one worker would receive all shards.
                | apache_beam.Reshuffle()
                | RunInference(ShardEmbedder(model, batch_size))
                | apache_beam.MapTuple(job.write)
            )
    # Each runner wraps the errors of its workers in its own way.
    except Exception as error:
        last = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"Apache Beam failed: {last[-1]} (use --debug for the traceback)") from error


# Seconds between checks for requests that still wait for a process that has ended.
EVERY = 1.0


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(SubprocessSdkWorkerHandler):
    """Worker process of `--direct_running_mode=multi_processing` that reports its end to everything that waits for it.

    Without this class, Beam raises the error in a thread that nobody observes, and the pipeline waits forever.
    """

    def start_worker(self):
        self._closed = threading.Event()
        self.worker = SubprocessSdkWorker(
            self._worker_command_line, self.control_address, self.provision_info, self.worker_id
        )
        self.worker_thread = threading.Thread(name="run_worker", target=self._run)
        self.worker_thread.start()

    def close(self):
        self._closed.set()
        super().close()

    def _run(self):
        try:
            self.worker.run()
        except RuntimeError as error:
            message = f"{error}. Complete shards are kept. Repeat the command to embed the others."
            # Requests that are sent after the process has ended must fail as well.
            while not self._closed.wait(EVERY):
                for number, future in list(self.control_conn._futures_by_id.items()):
                    future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=message))
