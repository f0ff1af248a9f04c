"""Addresses of collections of Qdrant: `qdrant://host:6333/photos`, or the folder of a client."""

import os
import warnings
from urllib.parse import parse_qsl, urlsplit

PORT, COLLECTION = 6333, "images"
# Seconds of a call.
SECONDS = 30
# Between a name and the number of the collection behind it.
NUMBERED = "~"


def read_address(address):
    """Returns what the client takes, and the collection."""
    if not address.startswith("//"):
        return {"path": os.path.abspath(address), "force_disable_check_same_thread": True}, COLLECTION
    parts, expected = urlsplit(f"qdrant:{address}"), "expected qdrant://host:6333/photos"
    options, collection = dict(parse_qsl(parts.query)), parts.path.strip("/")
    if parts.username or parts.password or options.keys() - {"https"}:
        raise ValueError(f"The address of Qdrant has a secret or an unknown option; {expected}, and QDRANT_API_KEY.")
    if not parts.hostname or not collection or set(collection) & {"/", NUMBERED}:
        raise ValueError(f"qdrant:{address}: {expected}.")
    about = {"host": parts.hostname, "port": parts.port or PORT, "https": options.get("https") == "true"}
    return {**about, "api_key": os.environ.get("QDRANT_API_KEY") or None, "timeout": SECONDS}, collection


def client(options):
    """Returns the client of what `read_address` returns."""
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        # That a key is sent without TLS, or that the server has another version: docs/stores.md says so.
        warnings.simplefilter("ignore")
        return QdrantClient(**options, check_compatibility=False)
