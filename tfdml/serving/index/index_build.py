"""Builds the files of an index from its embeddings."""

import numpy as np

from pipelines.datasets.ignoring import write_list
from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.neighbors.faiss_library import load_faiss

# An index is trained anew when it has grown by this factor.
GROWTH = 2


def unit_length(embeddings, metric):
    """Returns embeddings at unit length for cosine similarity, or as they are; float32."""
    embeddings = np.ascontiguousarray(embeddings, np.float32)
    if metric == "euclidean":
        return embeddings
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.where(lengths > 0, lengths, 1)


def index_of_kind(kind):
    """Returns the `ApproximateIndex` of a spec, such as `flat`; a ValueError for the one that makes no index."""
    index = registry.create("index", kind)
    if not index.is_approximate:
        raise ValueError(f"--kind={kind} makes no index; the exact one is flat.")
    return index


def build(folder, shards, spec, metric, anew=False):
    """Writes the index of all embeddings: what there is and the new ones, or all anew.

    Args:
        folder: `IndexFolder`.
        shards: its `EmbeddingShards`.
        spec: kind of a new index; one that is there keeps its own.
        metric: `cosine` or `euclidean`.
        anew: whether the vectors of an index that is there are not used again.
    """
    if not len(shards):
        _write_bad(folder, shards)
        raise ValueError(f"None of {len(shards.bad)} images can be read; {folder.bad_images} says why.")
    columns = _columns(shards)
    manifest = folder.manifest() if folder.exists() else None
    spec = manifest["spec"] if manifest else spec
    if manifest and not anew and _can_grow(folder, manifest, columns[0]):
        index, start = folder.read_index(manifest), manifest["count"]
        kind, trained_on = manifest["kind"], manifest["trained_on"]
    else:
        sized = index_of_kind(spec).of_size(len(shards))
        index, kind, trained_on, start = _trained(sized, shards, metric), repr(sized), len(shards), 0
    bar = ProgressBar(len(shards), "vector", done=start)
    for block in shards.blocks(start):
        index.add(unit_length(block.embeddings, metric))
        bar.add(len(block.embeddings))
    about = {
        "model": shards.model,
        "dimension": shards.dimension,
        "metric": metric,
        "spec": spec,
        "kind": kind,
        "count": len(shards),
        "trained_on": trained_on,
    }
    folder.write(index, columns, about)
    _write_bad(folder, shards)


def _columns(shards):
    """Returns lists of the ids, paths and labels of all rows."""
    columns = [], [], []
    for block in shards.blocks():
        for column, values in zip(columns, (block.ids.tolist(), block.paths, block.labels), strict=True):
            column.extend(values)
    return columns


def _can_grow(folder, manifest, ids):
    """Whether the embeddings are those of the index and new ones after them, and not too many for its training."""
    # An interrupted deletion leaves fewer embeddings than vectors.
    same = folder.read_images(manifest)[0].tolist() == ids[: manifest["count"]]
    return same and len(ids) <= GROWTH * manifest["trained_on"]


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
