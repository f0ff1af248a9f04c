"""Serves an index over HTTP, with a page to search it: `python -m tfdml.serve --index=index`.

TFDML_TOKEN=secret python -m tfdml.serve --index=index --host=0.0.0.0 --port=80
curl -F image=@query.jpg -F k=5 -H "Authorization: Bearer secret" http://localhost/search
"""

import ipaddress
import os

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

TOKEN = "TFDML_TOKEN"

flags.DEFINE_string("index", "", "Folder or address of the index, see python -m tfdml.index.")
flags.DEFINE_string("model", "", "Folder of the exported model; empty: the index's own copy.")
flags.DEFINE_string(
    "host", "127.0.0.1", "Address to listen on. With the default only this machine reaches it; 0.0.0.0 lets others in."
)
flags.DEFINE_integer("port", 8000, "Port to listen on; 0: one that is free.", 0, 65535)
flags.DEFINE_string("threshold", "", "Smallest similarity that is accepted, or none; empty: the fitted one.")
flags.DEFINE_integer("batch_size", 32, "Number of images that the model embeds at once.", lower_bound=1)
flags.DEFINE_integer("max_bytes", 20_000_000, "Maximum size of an image file, in bytes.", lower_bound=1)
flags.DEFINE_integer("max_pixels", 25_000_000, "Maximum number of pixels of an image.", 1, 100_000_000)
flags.DEFINE_integer("max_waiting", 64, "Maximum number of waiting requests; others get status 503.", lower_bound=1)
flags.DEFINE_integer("max_connections", 256, "Maximum number of open connections; others get 503.", lower_bound=1)
flags.DEFINE_bool(
    "allow_anonymous",
    False,
    f"Let other machines in without a token; by default they need the one in the variable {TOKEN}.",
)
tfdml_flags.define_debug()


def check():
    given, token = flags.FLAGS, os.environ.get(TOKEN, "")
    if not given.index:
        raise ValueError("--index is missing: the folder of an index, see python -m tfdml.index.")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{TOKEN} must be letters, digits and signs of ASCII, without spaces.")
    if not (_is_local(given.host) or token or given.allow_anonymous):
        raise ValueError(
            f"--host={given.host} lets other machines in: set the variable {TOKEN} to a secret that clients have to "
            "send, or give --allow_anonymous."
        )
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"Serving needs {error.name}: pip install 'tfdml[serve]'.") from error


def main():
    # Imported here, after TensorFlow.
    from tfdml.serving.http.limits import Limits
    from tfdml.serving.http.service import serve

    given = flags.FLAGS
    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    limits = Limits(given.max_bytes, given.max_pixels, given.max_waiting, connections=given.max_connections)
    hosts = {"127.0.0.1", "::1", "localhost", given.host.lower()} if _is_local(given.host) else ()
    about = {name: given[name].value for name in ("host", "port", "batch_size", "threshold")}
    serve(given.index, given.model or None, limits, token=os.environ.get(TOKEN, ""), hosts=hosts, **about)


def _is_local(host):
    """Whether only programs of the same machine reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


if __name__ == "__main__":
    command.run(main, before=check, reads_images=True)
