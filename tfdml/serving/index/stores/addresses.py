"""Addresses of indexes: a folder, or the name of a store and what it takes, such as `postgresql://host/db?table=photos`."""

import re
from pathlib import Path

from tfdml import registry
from tfdml.serving.exported.saved_model_files import model_hash, saved_model_folder
from tfdml.serving.index.searcher import Searcher

ENGINE = re.compile(r"([a-z][a-z0-9_]*):(.+)", re.DOTALL)


def is_engine(address):
    """Whether an address names a store that is no folder."""
    match = ENGINE.fullmatch(str(address))
    return bool(match) and match[1] != "folder" and match[1] in registry.names("store") and not Path(address).is_dir()


def open_store(address, **about):
    """Returns the `Store` of an address.

    Args:
        address: a folder, or `name:...` of a registered store.
        **about: `model`, `kind` and `metric`, see `Store`.
    """
    name, rest = str(address).split(":", 1) if is_engine(address) else ("folder", str(address))
    return registry.registered("store")[name](rest, **about)


def searcher_of(address, model=None):
    """Returns a searcher of the index at an address.

    Args:
        address: see `open_store`.
        model: folder of the exported model; None: the copy in the folder of the index.
    """
    if not is_engine(address):
        return Searcher(address, model)
    if not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    store = open_store(address, model=model_hash(saved_model_folder(model)))
    store.embedder = model
    return store.searcher()


def store_name(address):
    """Returns the name of the store of an address, which is no secret."""
    return str(address).split(":", 1)[0]
