"""Serves an index until the process is told to stop."""

import functools
import io
import logging
import os

import tensorflow as tf
from PIL import Image

from tfdml.serving.http.app import DECODERS, create_app
from tfdml.serving.http.server import Server, listen
from tfdml.serving.index.stores.addresses import searcher_of
from tfdml.serving.index.threshold import Threshold
from tfdml.serving.index.threshold_check import difference


def serve(index, model, limits, *, host, port, batch_size, token, hosts, threshold=""):
    """Serves an index over HTTP, and prints where.

    Args:
        index: its folder or address.
        model: folder of the exported model; None: the index's own copy.
        limits: `Limits`.
        host, port: where to listen.
        batch_size, token, hosts: as `create_app` takes them.
        threshold: what `--threshold` says, see `Threshold.of`.
    """
    # TensorFlow has a thread for each core; the network would wait for one while all decode.
    tf.config.threading.set_inter_op_parallelism_threads((os.cpu_count() or 1) + DECODERS)
    searcher = searcher_of(index, model)
    # Loads the model, and makes its functions: the first requests are to wait for nothing.
    warm_up(searcher)
    # Of the index as it is now: one of another model may take its place.
    threshold_of = functools.lru_cache(maxsize=1)(lambda searcher: Threshold.of(searcher, threshold))
    tell_of_threshold(searcher, threshold_of(searcher), threshold)
    app = create_app(searcher, limits, batch_size=batch_size, token=token, hosts=hosts, threshold=threshold_of)
    with listen(host, port) as bound:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{bound.getsockname()[1]}/"
        message = f"{len(searcher):,} images at {address}; Ctrl-C ends the service."
        Server(app, limits, lambda: print(message)).run([bound])


def tell_of_threshold(searcher, threshold, setting=""):
    """Prints which threshold is in force, and warns if the images of the index differ from those it was fitted on.

    Args:
        searcher: `Searcher`.
        threshold: its `Threshold`.
        setting: what `--threshold` says.
    """
    print(_in_force(searcher, threshold, setting))
    if told := difference(searcher, threshold):
        logging.getLogger(__name__).warning(told)


def _in_force(searcher, threshold, setting):
    """Returns a sentence about the threshold that decides, or about why there is none."""
    if threshold.fitted is not None:
        return threshold.in_words(len(searcher))
    if threshold.value is not None:
        return f"Threshold {threshold.value:g}: --threshold sets it."
    why = "because of --threshold=none" if setting else "because tfdml.threshold has fitted none for this model"
    return f'There is no threshold, {why}. /label never rejects a label, and answers "accepted": null.'


def warm_up(searcher):
    """Embeds an image in both ways in which the service does."""
    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, "PNG")
    searcher.embed_read([file.getvalue()])
    searcher.embed_read([searcher.read(file.getvalue())])
