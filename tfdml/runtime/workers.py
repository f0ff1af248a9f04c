"""`Workers`: the processes that train together and share results that all of them need."""

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from tensorflow.distribute import Strategy
else:
    # A single process does not need TensorFlow.
    Strategy = Any

# Bytes that a worker sends at once. TensorFlow holds several copies of them, and larger pieces are not faster.
PIECE = 2**22
# Maximum number of characters of an error that other workers receive.
MOST_TOLD = 4000


class WorkerFailed(ChildProcessError, RuntimeError):
    """Error that is raised on all other workers when one worker fails in a common computation."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """The processes that train together, as one of them sees them. Without arguments, it is a single process.

    All workers must call `gather` and `from_first` in the same order.

    Args:
        index: Integer. Index of this worker, from 0. Defaults to `0`.
        count: Integer. Number of workers. Defaults to `1`.
        exchange: Function that concatenates the vectors `[n]` of all workers, always in the same order. n may differ
            between workers. Defaults to `None`.
    """

    index: int = 0
    count: int = 1
    exchange: Callable | None = None

    @classmethod
    def of(cls, strategy: Strategy | None) -> Self:
        """Returns the workers of a `tf.distribute.Strategy`, or a single process for None."""
        if strategy is None:
            return cls()
        from tfdml.runtime.devices import is_multi_worker, worker_of

        return cls(*worker_of(strategy), _exchange_of(strategy)) if is_multi_worker(strategy) else cls()

    def share(self, count: int) -> range:
        """Returns this worker's share of `count` items as a range of indices."""
        return range(self.index * count // self.count, (self.index + 1) * count // self.count)

    def gather(self, compute: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Concatenates the arrays that `compute` returns on all workers, in the order of the workers.

        If one worker raises an error, all workers raise an error, so that none of them waits forever.

        Args:
            compute: Function that returns a tuple of arrays `[n, ...]`, where n may differ between workers, or an empty
                tuple on a worker without items.

        Returns:
            Tuple of the concatenated arrays.

        Raises:
            WorkerFailed: If another worker failed.
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
        """Returns the tuple of arrays that `compute` returns on the first worker. Other workers do not call it."""
        return self.gather(compute if self.index == 0 else tuple)

    def _notices(self, parts, error):
        """Exchanges descriptions of the arrays or the error of each worker. Returns them in exchange order."""
        arrays = [(part.dtype.name, part.shape) for part in parts]
        line = json.dumps({"worker": self.index, "arrays": arrays, "error": error and _message_of(error)}) + "\n"
        # Collective operations do not support bytes, so the text is sent as integers.
        codes = self.exchange(np.frombuffer(line.encode(), np.uint8).astype(np.int32))
        return [json.loads(line) for line in codes.astype(np.uint8).tobytes().decode().splitlines()]

    def _whole(self, part, place, notices):
        """Exchanges the arrays at one place of the tuples, piece by piece. `part` is this worker's array, if any."""
        counts = {notice["worker"]: 0 for notice in notices}
        for notice in notices:
            if notice["arrays"]:
                name, (counts[notice["worker"]], *row) = notice["arrays"][place]
        whole = np.empty((sum(counts.values()), *row), name)
        # Only the first dimension differs between workers.
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


# A single process.
ALONE = Workers()


@functools.lru_cache(maxsize=1)
def _exchange_of(strategy):
    import tensorflow as tf

    # `gather` copies all values exactly, including -0 and NaN, on CPUs and GPUs. A sum with zeros by `all_reduce` would
    # not, and it would send twice as much. One function per type avoids that TensorFlow traces each call again. In a
    # replica context, `all_gather` and `all_reduce` fail with several workers.
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
    """Returns the error to raise after another worker failed: a TensorFlow error if it had one, or `WorkerFailed`."""
    import tensorflow as tf

    code, text = notice["error"]["code"], f"Worker {notice['worker']} failed: {notice['error']['text']}"
    if code is None:
        return WorkerFailed(text)
    return tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, text)
