"""`Batcher`: answers what several threads ask for, together or one by one."""

import queue
import threading
import time
from concurrent.futures import Future

_END = object()


class Batcher:
    """Collects questions and has threads of its own answer them in batches.

    While batches are answered, the next questions wait; so the batches grow with the load.

    Args:
        answer: function of a list of questions that returns a list of answers. If it raises an error, all of the batch
            get it.
        batch_size: most questions of a batch.
        patience: seconds that the first question waits for others.
        threads: how many batches are answered at once.
    """

    def __init__(self, answer, batch_size, patience=0.002, threads=1):
        self._answer, self._batch_size, self._patience = answer, batch_size, patience
        self._waiting = queue.SimpleQueue()
        # When each thread has begun its batch; None while it waits for one.
        self._begun = [None] * threads
        # They do not keep a process that ends.
        self._threads = [threading.Thread(target=self._work, args=[number], daemon=True) for number in range(threads)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def is_stuck(self, seconds):
        """Whether all threads have worked at their batches for longer than that."""
        now = time.monotonic()
        return all(begun is not None and now - begun > seconds for begun in list(self._begun))

    def submit(self, question):
        """Returns a `concurrent.futures.Future` of the answer."""
        future = Future()
        self._waiting.put((question, future))
        return future

    def close(self, seconds=None):
        """Answers what waits, then ends the threads; nothing may be asked any more.

        Args:
            seconds: how long it waits for that; threads that are stuck stay behind. Default: until the end.
        """
        self._waiting.put(_END)
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(end - time.monotonic(), 0))

    def _work(self, number):
        while batch := self._next_batch():
            # What nobody waits for any more is left out.
            batch = [(question, future) for question, future in batch if future.set_running_or_notify_cancel()]
            if batch:
                self._begun[number] = time.monotonic()
                self._answer_all(*zip(*batch, strict=True))
                self._begun[number] = None
        # For the other threads.
        self._waiting.put(_END)

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
