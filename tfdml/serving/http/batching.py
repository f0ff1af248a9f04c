"""`Batcher`: answers what several threads ask for together."""

import queue
import threading
import time
from concurrent.futures import Future

_END = object()


class Batcher:
    """Collects questions and has one thread answer them in batches.

    While a batch is answered, the next ones wait; so the batches grow with the load.

    Args:
        answer: function of a list of questions that returns a list of answers. If it raises an error, all of the batch
            get it.
        batch_size: most questions of a batch.
        patience: seconds that the first question waits for others.
    """

    def __init__(self, answer, batch_size, patience=0.002):
        self._answer, self._batch_size, self._patience = answer, batch_size, patience
        self._waiting = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self):
        self._thread.start()

    def submit(self, question):
        """Returns a `concurrent.futures.Future` of the answer."""
        future = Future()
        self._waiting.put((question, future))
        return future

    def close(self):
        """Answers what waits, then ends the thread; nothing may be asked any more."""
        self._waiting.put(_END)
        self._thread.join()

    def _work(self):
        while batch := self._next_batch():
            # What nobody waits for any more is left out.
            batch = [(question, future) for question, future in batch if future.set_running_or_notify_cancel()]
            if batch:
                self._answer_all(*zip(*batch, strict=True))

    def _next_batch(self):
        """Returns the next questions with their futures; an empty list at the end."""
        batch, first = [], self._waiting.get()
        end = time.monotonic() + self._patience
        while first is not _END:
            batch.append(first)
            if len(batch) == self._batch_size:
                return batch
            try:
                first = self._waiting.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                return batch
        if batch:
            self._waiting.put(_END)
        return batch

    def _answer_all(self, questions, futures):
        try:
            for future, answer in zip(futures, self._answer(list(questions)), strict=True):
                future.set_result(answer)
        except Exception as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
