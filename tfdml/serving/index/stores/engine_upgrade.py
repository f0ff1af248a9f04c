"""Gives an index in an engine another model, beside the one that it has until then."""

import dataclasses

from tfdml.console.progress_bar import ProgressBar
from tfdml.serving.embedding.embedding_pass import embed_rows
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_hash, saved_model_folder
from tfdml.serving.index.stores.addresses import open_store
from tfdml.serving.index.upgrading import check_readable

# Images that are embedded before they are added: what an interruption loses.
ROWS = 1024


def upgrade_engine(address, model, *, batch_size=None):
    """Embeds all images of an index by another model, and has the index use it then; returns how many these are.

    It returns 0 if the index has this model already, as after a command that was killed at its end.

    Until the end searches find what they found before. What is done is not done again if it is interrupted and
    repeated. Ids, labels and attributes stay, and images that others add or delete meanwhile are added or deleted.

    Args:
        address: of the index.
        model: folder of the exported model.
        batch_size: images that the model embeds at once; None: see `embed_into`.
    """
    folder = saved_model_folder(model)
    with open_store(address) as store:
        about, digest = store.existing(), model_hash(folder)
        if about.model == digest:
            return 0
        embedder = ExportedModel(folder)
        changed = {"model": digest, "dimension": embedder.dimension, "metric": embedder.metric}
        new = store.successor(dataclasses.replace(about, **changed))
        finished = False
        while not finished:
            # Again, for what is new since.
            embedded = _embed(store, new, embedder, batch_size)
            new.build()
            finished = not embedded and new.take_place(store)
        return store.count()


def _embed(store, new, embedder, batch_size):
    """Embeds the images that are not there yet; returns how many these are."""
    bar, missing, done = ProgressBar(store.count(), "image"), {}, 0
    for page in store.pages(ROWS):
        there = new.paths_of([id for id, _ in page])
        left = [(id, path) for id, path in page if there.get(id) != path]
        bar.add(len(page) - len(left))
        if not left:
            continue
        images = ImageList([path for _, path in left], [None] * len(left))
        kept, vectors, bad = embed_rows(images, range(len(left)), embedder, batch_size=batch_size, on_batch=bar.add)
        if kept:
            new.take_vectors([left[row][0] for row in kept], vectors, store)
        missing |= bad
        done += len(kept)
    check_readable(missing, store.count())
    return done
