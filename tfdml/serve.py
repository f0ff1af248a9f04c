"""Serves an index over HTTP, with a search page for the browser: `python -m tfdml.serve --index=index`.

TFDML_TOKEN=secret python -m tfdml.serve --index=index --host=0.0.0.0 --port=80
curl -F image=@query.jpg -F k=5 -H "Authorization: Bearer secret" http://localhost/search
"""

import importlib.util
import io
import ipaddress
import os

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

TOKEN = "TFDML_TOKEN"

flags.DEFINE_string("index", "", "Folder or address of an index, see python -m tfdml.index.")
flags.DEFINE_string("model", "", "Folder of the exported model. If not set, the copy in the index is used.")
tfdml_flags.define_query_model()
flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen on. The default is only reachable from this machine. Use 0.0.0.0 to allow other machines.",
)
flags.DEFINE_integer("port", 8000, "Port to listen on. 0 selects a free port.", 0, 65535)
flags.DEFINE_string(
    "threshold",
    "",
    "Minimum similarity to an image for a result to be accepted, or none. If not set, the fitted threshold of the "
    "model. Searches by text use the fitted threshold of the model for texts, unless this is none.",
)
flags.DEFINE_integer("batch_size", 32, "Number of images that the model embeds at once.", lower_bound=1)
flags.DEFINE_integer("max_bytes", 20_000_000, "Maximum size of an image file, in bytes.", lower_bound=1)
flags.DEFINE_integer("max_pixels", 25_000_000, "Maximum number of pixels of an image.", 1, 100_000_000)
flags.DEFINE_integer(
    "max_waiting", 64, "Maximum number of waiting requests. Further requests get status 503.", lower_bound=1
)
flags.DEFINE_integer(
    "max_connections", 256, "Maximum number of open connections. Further ones get status 503.", lower_bound=1
)
flags.DEFINE_bool(
    "allow_anonymous",
    False,
    f"Allow requests from other machines without a token. By default, they need the token in the variable {TOKEN}.",
)
tfdml_flags.define_debug()


def check():
    values, token = flags.FLAGS, os.environ.get(TOKEN, "")
    if not values.index:
        raise ValueError("--index is missing. Set it to the folder or address of an index, see python -m tfdml.index.")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{TOKEN} must consist of printable ASCII characters without spaces.")
    if not (_is_local(values.host) or token or values.allow_anonymous):
        raise ValueError(
            f"--host={values.host} lets other machines in. Set the variable {TOKEN} to a secret that clients must "
            "send, or set --allow_anonymous."
        )
    for package in ("fastapi", "prometheus_client", "python_multipart", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f"Serving needs {package}: pip install 'tfdml[serve]'.")


def main():
    # Imported here, after TensorFlow.
    import tensorflow as tf

    from tfdml.serving.http.app import DECODERS, create_app
    from tfdml.serving.http.server import Limits, Server, listen
    from tfdml.serving.index.searcher import searcher_of
    from tfdml.serving.index.threshold import NONE, CurrentThreshold

    values = flags.FLAGS
    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    # TensorFlow has one thread per core. More threads keep the network from waiting while all of them decode images.
    tf.config.threading.set_inter_op_parallelism_threads((os.cpu_count() or 1) + DECODERS)
    searcher = searcher_of(values.index, values.model or None, values.query_model or None)
    # Loads the model and traces its functions, so that the first request does not have to wait.
    _warm_up(searcher)
    threshold_of = CurrentThreshold(values.threshold)
    text_threshold_of = CurrentThreshold(NONE if values.threshold == NONE else "", "text")
    print_threshold(searcher, threshold_of(searcher), values.threshold)
    if text_threshold_of(searcher).fitted is not None:
        print(text_threshold_of(searcher).in_words(len(searcher)))
    limits = Limits(values.max_bytes, values.max_pixels, values.max_waiting, connections=values.max_connections)
    hosts = {"127.0.0.1", "::1", "localhost", values.host.lower()} if _is_local(values.host) else ()
    token = os.environ.get(TOKEN, "")
    access = {"token": token, "hosts": hosts}
    thresholds = {"threshold": threshold_of, "text_threshold": text_threshold_of}
    app = create_app(searcher, limits, batch_size=values.batch_size, **access, **thresholds)
    with listen(values.host, values.port) as bound:
        host = f"[{values.host}]" if ":" in values.host else values.host
        address = f"http://{host}:{bound.getsockname()[1]}/"
        message = f"Serving {len(searcher):,} images at {address} (press Ctrl-C to stop)"
        Server(app, limits, lambda: print(message)).run([bound])


def _warm_up(searcher):
    """Embeds an image in both ways that the service uses, and a text if the model can."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, "PNG")
    searcher.embed_read([file.getvalue()])
    searcher.embed_read([searcher.read(file.getvalue())])
    if searcher.has_texts:
        searcher.embed_texts(["a photo"])


def print_threshold(searcher, threshold, setting=""):
    """Prints the threshold in use, and warns if the index differs from the images that it was fitted on."""
    from tfdml.serving.index.threshold import difference

    if threshold.fitted is not None:
        print(threshold.in_words(len(searcher)))
    elif threshold.value is not None:
        print(f"Using the threshold {threshold.value:g}, which --threshold sets.")
    else:
        why = (
            "because of --threshold=none" if setting else "because none was fitted for this model with tfdml.threshold"
        )
        print(f'No threshold is used, {why}. /label accepts all labels and returns "accepted": null.')
    if warning := difference(searcher, threshold):
        logging.warning(warning)


def _is_local(host):
    """Whether a host is only reachable from the same machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


if __name__ == "__main__":
    command.run(main, before=check, reads_images=True)
