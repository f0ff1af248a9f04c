"""Workers that are threads, to test without processes what several compute together."""

import concurrent.futures
import threading

import numpy as np

from tfdml.runtime.workers import Workers


class Exchange:
    """Joins the vectors of threads; `order` says in which order they lie, which collectives leave open."""

    def __init__(self, order):
        self.order, self.vectors, self.sizes = order, {}, []
        self.barrier = threading.Barrier(len(order), timeout=60)

    def of(self, index):
        def exchange(vector):
            self.vectors[index] = vector.copy()
            self.sizes.append(vector.nbytes)
            self.barrier.wait()
            joined = np.concatenate([self.vectors[each] for each in self.order])
            self.barrier.wait()
            return joined

        return exchange


def together(task, order=(0, 1, 2)):
    """Results of a task, or the errors that it raises, on each of several workers."""
    exchange = Exchange(order)

    def run(index):
        try:
            return task(Workers(index, len(order), exchange.of(index)))
        except Exception as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(order)) as threads:
        return list(threads.map(run, range(len(order)))), exchange
