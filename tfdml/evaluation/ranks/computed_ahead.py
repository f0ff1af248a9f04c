"""Computes the next value while the last one is used."""

import concurrent.futures

END = object()


def one_ahead(values):
    """Yields the values of an iterable, the next of which a thread computes meanwhile."""
    values = iter(values)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, values, END)
        while (value := following.result()) is not END:
            following = thread.submit(next, values, END)
            yield value
