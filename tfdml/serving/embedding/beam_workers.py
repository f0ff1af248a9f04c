"""Lets DirectRunner notice that one of its processes has ended; Beam 2.77 waits for it forever."""

import threading

from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import SubprocessSdkWorkerHandler, WorkerHandler
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker

# Seconds from one look for what still waits for a process that has ended to the next.
EVERY = 1.0


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(SubprocessSdkWorkerHandler):
    """A process of `--direct_running_mode=multi_processing` whose end is an error of what waits for its answers.

    Beam's own raises that error in a thread that nobody listens to.
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
            message = f"{error}. Complete shards stay; repeat the command for the others."
            # Also what is asked after its end.
            while not self._closed.wait(EVERY):
                self._fail(message)

    def _fail(self, message):
        for number, future in list(self.control_conn._futures_by_id.items()):
            future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=message))
