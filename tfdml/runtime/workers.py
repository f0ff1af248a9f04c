"""`Workers`: the processes that train together, and share what all of them need."""

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from tensorflow.distribute import Strategy
else:
    # A process alone needs no TensorFlow.
    Strategy = Any

# Bytes that a worker sends at once: TensorFlow holds several copies of what all send, and larger pieces are no faster.
PIECE = 2**22
# Characters of an error that other workers get.
MOST_TOLD = 4000


class WorkerFailed(ChildProcessError, RuntimeError):
    """Raised on all other workers when one fails in what they compute together."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """The workers of a run, as one of them sees them. Without arguments: a process alone.

    What they compute together, all must compute in the same order.

    Args:
        index: number of this worker, from 0.
        count: number of workers.
        exchange: function of a vector `[n]`, where n may differ from worker to worker, that returns the vectors of all
            workers one behind the other, always in the same order.
    """

    index: int = 0
    count: int = 1
    exchange: Callable | None = None

    @classmethod
    def of(cls, strategy: Strategy) -> Self:
        """Returns the workers of a `tf.distribute.Strategy`."""
        from tfdml.runtime.devices import is_multi_worker, worker_of

        return cls(*worker_of(strategy), _exchange_of(strategy)) if is_multi_worker(strategy) else cls()

    def share(self, count: int) -> range:
        """Returns the range, of `count` things, that is this worker's share."""
        return range(self.index * count // self.count, (self.index + 1) * count // self.count)

    def gather(self, compute: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Returns the arrays that `compute` gives on all workers, each concatenated in the order of the workers.

        It returns a tuple of arrays `[n, ...]`, where n may differ from worker to worker, or an empty tuple on a worker
        that has nothing. An error on one worker is an error on all, so that none waits for it in vain.
        """
        if self.count == 1:
            return compute()
        parts, error = (), None
        try:
            parts = compute()
        except Exception as raised:
            error = raised
        notices = self._notices(parts, error)
        if error is not None:
            raise error
        for notice in notices:
            if notice["error"]:
                raise _error_of(notice)
        longest = max((notice["arrays"] for notice in notices), key=len)
        return tuple(self._whole(parts[place : place + 1], place, notices) for place in range(len(longest)))

    def from_first(self, compute: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Returns the tuple of arrays that `compute` gives on the first worker; others do not compute it."""
        return self.gather(compute if self.index == 0 else tuple)

    def _notices(self, parts, error):
        """Tells all workers what arrays this one has, or its error; returns what each tells, in exchange order."""
        arrays = [(part.dtype.name, part.shape) for part in parts]
        line = json.dumps({"worker": self.index, "arrays": arrays, "error": error and _message_of(error)}) + "\n"
        # Collective operations exchange no bytes.
        codes = self.exchange(np.frombuffer(line.encode(), np.uint8).astype(np.int32))
        return [json.loads(line) for line in codes.astype(np.uint8).tobytes().decode().splitlines()]

    def _whole(self, part, place, notices):
        """Exchanges the arrays at a place, piece by piece; `part` holds this worker's, if it has one."""
        counts = {notice["worker"]: 0 for notice in notices}
        for notice in notices:
            if notice["arrays"]:
                name, (counts[notice["worker"]], *row) = notice["arrays"][place]
        whole = np.empty((sum(counts.values()), *row), name)
        # Of all but the first dimension, which is this worker's.
        own, width = (part[0] if part else whole[:0]), int(np.prod(row))
        rows = max(1, PIECE // max(1, width * whole.itemsize))
        for first in range(0, max(counts.values()), rows):
            received = self.exchange(np.ravel(own[first : first + rows]))
            for worker, count in counts.items():
                before = sum(counts[other] for other in range(worker)) + first
                size = min(max(count - first, 0), rows)
                piece, received = received[: size * width], received[size * width :]
                whole[before : before + size] = piece.reshape(size, *row)
        return whole


# A process without others.
ALONE = Workers()


@functools.lru_cache(maxsize=1)
def _exchange_of(strategy):
    import tensorflow as tf

    # `gather` copies bits on CPUs and GPUs alike, also those of -0 and NaN, where a sum with zeros, as by `all_reduce`,
    # would not, and would send twice as much. In a function for each type, because TensorFlow traces it anew for each
    # call otherwise. In a replica's context `all_gather` and `all_reduce` fail with several workers.
    @functools.cache
    def gathered(dtype):
        vector = tf.TensorSpec([None], dtype)
        return tf.function(lambda own: strategy.gather(own, axis=0), input_signature=[vector], autograph=False)

    return lambda vector: gathered(vector.dtype)(tf.convert_to_tensor(vector)).numpy()


def _message_of(error):
    import tensorflow as tf

    if isinstance(error, tf.errors.OpError):
        return {"code": error.error_code, "text": error.message[:MOST_TOLD]}
    return {"code": None, "text": str(error)[:MOST_TOLD]}


def _error_of(notice):
    """The error to raise where another worker has failed: of TensorFlow's kind if its own was, else `WorkerFailed`."""
    import tensorflow as tf

    code, text = notice["error"]["code"], f"Worker {notice['worker']} failed: {notice['error']['text']}"
    if code is None:
        return WorkerFailed(text)
    return tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, text)
