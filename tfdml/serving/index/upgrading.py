"""Gives an index another model, beside the one that it has until then."""

import shutil

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import locked, naming
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.embedding.embedding_pass import embed_rows
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_hash, saved_model_folder
from tfdml.serving.index.deleting import finish_deletion
from tfdml.serving.index.index_build import build
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.indexing import copy_model


def upgrade_index(out, model, *, shard_rows=4096, batch_size=None):
    """Embeds all images of an index by another model, and has the index use it then; returns how many these are.

    It returns 0 if the index has this model already, as after a command that was killed at its end.

    Until the end searches find what they found before, and nothing can be added or deleted. What is done is not done
    again if it is interrupted and repeated. Ids, labels and attributes stay.

    Args:
        out: folder of the index.
        model: folder of the exported model.
        shard_rows: images between two notes of what is done.
        batch_size: images that the model embeds at once; None: see `embed_into`.
    """
    folder, model = IndexFolder(out), saved_model_folder(model)
    folder.manifest()
    with naming(folder.path), locked(folder.path, "index"):
        finish_deletion(folder)
        manifest, digest = folder.manifest(), model_hash(model)
        # What a kill has left of an upgrade that was done.
        _remove_before(folder, manifest.get("upgrades", 0))
        if digest == manifest["model"]:
            return 0
        number = manifest.get("upgrades", 0) + 1
        shards = _begun(folder, model, digest, number)
        embedder, rows = ExportedModel(folder.model_after(number)), folder.read_rows(manifest)
        _embed(folder, rows, shards, embedder, shard_rows, batch_size)
        before = EmbeddingShards(folder.embeddings)
        shards.skip_ids(before.manifest["next_id"], before.bad)
        build(folder, shards, manifest["spec"], embedder.metric, anew=True, upgrades=number)
        _remove_before(folder, number)
        return folder.size()


def _remove_before(folder, number):
    """Removes the models and the embeddings that an index had before so many upgrades."""
    for earlier in range(number):
        for old in (folder.model_after(earlier), folder.embeddings_after(earlier)):
            shutil.rmtree(old, ignore_errors=True)


def _begun(folder, model, digest, number):
    """Returns the shards of the upgrade, with the model beside them: those of an interrupted one, or empty ones."""
    embeddings, target = folder.embeddings_after(number), folder.model_after(number)
    if embeddings.is_dir() and target.is_dir():
        shards = EmbeddingShards(embeddings)
        if shards.model == digest == model_hash(target):
            return shards
    shutil.rmtree(embeddings, ignore_errors=True)
    copy_model(model, target)
    return EmbeddingShards.create(embeddings, model=digest, dimension=ExportedModel(target).dimension)


def _embed(folder, rows, shards, embedder, shard_rows, batch_size):
    """Embeds the images that the shards do not have yet, and removes those that the index has no more."""
    live = {id: row for row, id in enumerate(rows.ids.tolist()) if not rows.deleted[row]}
    done = {id for block in shards.blocks() for id in block.ids.tolist()}
    if done - live.keys():
        shards.remove(done - live.keys())
    names = {row: rows.paths[row] for id, row in live.items() if id not in done}
    left = list(names)
    images = ImageList([folder.file_of(path) for path in rows.paths], rows.labels)
    bar, missing = ProgressBar(len(live), "image", done=len(live) - len(left)), {}
    for start in range(0, len(left), shard_rows):
        part = left[start : start + shard_rows]
        kept, found, bad = embed_rows(images, part, embedder, batch_size=batch_size, on_batch=bar.add)
        shards.append([names[row] for row in kept], [rows.labels[row] for row in kept], found, {}, rows.ids[kept])
        missing |= bad
    check_readable(missing, len(live))


def check_readable(missing, count):
    """Raises a ValueError if images of an index with so many cannot be read: path to reason."""
    if missing:
        path, reason = min(missing.items())
        raise ValueError(
            f"{len(missing):,} of {count:,} images cannot be read, first {path}: {reason}. Bring them back, or "
            "delete them from the index, and repeat the command. The index stays as it was."
        )
