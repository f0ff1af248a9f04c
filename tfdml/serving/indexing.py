"""Makes indexes of images, adds to them and deletes from them."""

import os
import shutil
from pathlib import Path

import numpy as np

from pipelines.datasets.ignoring import write_list
from tfdml import registry
from tfdml.embedding_shards import EmbeddingShards
from tfdml.faiss_library import load_faiss
from tfdml.progress_bar import ProgressBar
from tfdml.serving.embedding_pass import embed_into
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.folder_lock import locked
from tfdml.serving.index_folder import IndexFolder
from tfdml.serving.model_files import model_files, model_hash

# An index is trained anew when it has grown by this factor.
GROWTH = 2
# What an interrupted indexing leaves in its folder.
UNFINISHED = {".lock", "embeddings", "model", "images", "bad_images.jsonl"}


def index_images(out, images, *, model="", kind="flat", add=False, **options):
    """Makes an index of images, goes on with one that was interrupted, or adds images to one.

    Args:
        out: folder of the index.
        images: `ImageList`.
        model: folder of the exported model; needed to make one, and otherwise checked if it is given.
        kind: spec of an index, such as `flat` or `ivf(probes=32)`.
        add: whether the images are added to a complete index, whose kind stays as it is.
        **options: `shard_rows` and `batch_size` of `embed_into`.

    Returns:
        The number of images in the index, and path to reason of those that could not be read.
    """
    folder = IndexFolder(out)
    _check_target(folder, add)
    if not add:
        _created(kind)
    folder.path.mkdir(parents=True, exist_ok=True)
    with locked(folder.path, "index"):
        shards, embedder = _opened(folder, model, add)
        if not add:
            _check_same(folder, shards, images)
        in_memory = images.contents is not None

        def keep(path, contents):
            target = folder.path / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(contents)

        embed_into(shards, images, embedder, on_read=keep if in_memory else None, **options)
        _build(folder, shards, kind, embedder.metric)
        return len(shards), dict(shards.bad)


def index_embeddings(out, source, *, model, kind="flat"):
    """Makes an index of the embeddings that `python -m tfdml.embed` has written; returns what `index_images` does.

    Args:
        out: folder of the index.
        source: folder of the embeddings.
        model: folder of the exported model that computed them.
        kind: see `index_images`.
    """
    folder, given = IndexFolder(out), EmbeddingShards(source)
    _check_target(folder, add=False)
    _created(kind)
    if model_hash(model) != given.model:
        raise ValueError(f"The embeddings in {source} were not computed by the model {model}; give the one that did.")
    relative = next((path for path in sorted(given.paths()) if not os.path.isabs(path)), None)
    if relative is not None:
        raise ValueError(f"{source} has images of a dataset in memory, such as {relative}; index them with --images.")
    folder.path.mkdir(parents=True, exist_ok=True)
    with locked(folder.path, "index"):
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        _copy(model, folder.model)
        shards = given.copy_to(folder.embeddings)
        _build(folder, shards, kind, ExportedModel(folder.model).metric)
        return len(shards), dict(shards.bad)


def delete_images(out, paths):
    """Deletes images from an index, with their embeddings; returns how many images are left.

    Args:
        out: folder of the index.
        paths: list of paths, as the index has them or relative to the working folder.
    """
    folder = IndexFolder(out)
    manifest = folder.manifest()
    with locked(folder.path, "index"):
        shards = EmbeddingShards(folder.embeddings)
        # Also those that an interrupted deletion has deleted from the embeddings only.
        there = shards.paths() | set(folder.read_images(manifest)[1])
        names = {_name_of(path, out, there) for path in paths}
        unknown = sorted(names - there)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, and nothing is deleted.")
        if not shards.paths() - names:
            raise ValueError(f"These are all images of the index {out}; remove the folder instead.")
        shards.remove(names)
        _build(folder, shards, manifest["spec"], manifest["metric"], anew=True)
        for name in names:
            if not os.path.isabs(name):
                Path(folder.file_of(name)).unlink(missing_ok=True)
        return len(shards)


def _name_of(path, out, there):
    """Returns the name in the index of an image with this path."""
    names = (str(path), os.path.relpath(path, out), os.path.abspath(path))
    return next((name for name in names if name in there), names[-1])


def unit_length(embeddings, metric):
    """Returns embeddings at unit length for cosine similarity, or as they are; float32."""
    embeddings = np.ascontiguousarray(embeddings, np.float32)
    if metric == "euclidean":
        return embeddings
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.where(lengths > 0, lengths, 1)


def _check_target(folder, add):
    if add:
        folder.manifest()
    elif folder.exists():
        raise ValueError(f"{folder.path} holds an index. --add adds images to it; give another --out for a new one.")
    elif folder.path.exists() and not folder.path.is_dir():
        raise ValueError(f"--out={folder.path} is a file; give a folder.")
    elif folder.path.exists() and not _is_ours({entry.name for entry in folder.path.iterdir()}):
        raise ValueError(f"--out={folder.path} is not empty and holds no index; give a new folder.")


def _is_ours(names):
    """Whether a folder with these names is empty, or what an interrupted indexing has left."""
    others = {name for name in names - UNFINISHED if not name.startswith(("index-", "images-", ".writing-"))}
    return not names or ".lock" in names and not others


def _opened(folder, model, add):
    """Returns the shards and the model of an index; puts both there if it is new."""
    begun = folder.embeddings.is_dir() and folder.model.is_dir()
    if not begun:
        if add or not model:
            raise ValueError(f"--model is missing: the exported model that {folder.path} is made with.")
        embedder = ExportedModel(model)
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        _copy(model, folder.model)
        shards = EmbeddingShards.create(folder.embeddings, model=model_hash(model), dimension=embedder.dimension)
        return shards, embedder
    shards = EmbeddingShards(folder.embeddings)
    if model:
        folder.check_model(model, shards.model)
    folder.check_model(folder.model, shards.model)
    embedder = ExportedModel(folder.model)
    if embedder.dimension != shards.dimension:
        raise ValueError(f"The embeddings in {folder.embeddings} do not have the dimensions of the model.")
    return shards, embedder


def _copy(model, target):
    """Copies a SavedModel and its card, so that the index needs nothing beside it."""
    unfinished = target.with_name(f".writing-{target.name}")
    for leftover in (unfinished, target):
        shutil.rmtree(leftover, ignore_errors=True)
    cards = [name for name in ("metadata.json", "README.md") if (Path(model) / name).is_file()]
    for name in (*model_files(model), *cards):
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(model) / name, unfinished / name)
    unfinished.rename(target)


def _check_same(folder, shards, images):
    others = shards.paths() - set(images.paths)
    if others:
        raise ValueError(
            f"{folder.path} holds an indexing of other images that was interrupted, such as {min(others)}. Repeat its "
            "command, or give another --out."
        )


def _created(kind):
    index = registry.create("index", kind)
    if not index.is_approximate:
        raise ValueError(f"--kind={kind} makes no index; the exact one is flat.")
    return index


def _build(folder, shards, spec, metric, anew=False):
    """Writes the index of all embeddings: what there is and the new ones, or all anew."""
    if not len(shards):
        _write_bad(folder, shards)
        raise ValueError(f"None of {len(shards.bad)} images can be read; {folder.bad_images} says why.")
    manifest = folder.manifest() if folder.exists() else None
    grown = manifest and len(shards) <= GROWTH * manifest["trained_on"] and not anew
    if grown:
        index, start = folder.read_index(manifest), manifest["count"]
        kind, trained_on = manifest["kind"], manifest["trained_on"]
    else:
        sized = _created(manifest["spec"] if manifest else spec).of_size(len(shards))
        index, kind, trained_on, start = _trained(sized, shards, metric), repr(sized), len(shards), 0
    columns, bar = ([], [], []), ProgressBar(len(shards), "vector", done=start)
    for block in shards.blocks():
        first = len(columns[0])
        for column, values in zip(columns, (block.ids.tolist(), block.paths, block.labels), strict=True):
            column.extend(values)
        if first >= start:
            index.add(unit_length(block.embeddings, metric))
            bar.add(len(block.embeddings))
    about = {
        "model": shards.model,
        "dimension": shards.dimension,
        "metric": metric,
        "spec": manifest["spec"] if manifest else spec,
        "kind": kind,
        "count": len(shards),
        "trained_on": trained_on,
    }
    folder.write(index, columns, about)
    _write_bad(folder, shards)


def _trained(index, shards, metric):
    """Returns an index of faiss that is trained on a sample of the embeddings, and empty."""

    def sample(count):
        drawn = np.random.default_rng(0).choice(len(shards), min(count, len(shards)), replace=False)
        return unit_length(shards.rows(np.sort(drawn)), metric)

    faiss = load_faiss()
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return index.create(shards.dimension, kind, sample)


def _write_bad(folder, shards):
    folder.bad_images.unlink(missing_ok=True)
    if shards.bad:
        write_list(folder.bad_images, sorted(shards.bad.items()))
