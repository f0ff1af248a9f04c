"""Builds the files of an index from its embeddings."""

import numpy as np

from pipelines.dataset import write_list
from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.neighbors.nearest import load_faiss, unit_length
from tfdml.serving.index.attributes import joined

# An index is trained anew when it has grown by this factor.
GROWTH = 2
# It is built anew, without the rows that are deleted, when they are this fraction.
GONE = 0.2


def compared_vectors(embeddings, metric):
    """Returns embeddings at unit length for cosine similarity, or as they are; float32."""
    embeddings = np.ascontiguousarray(embeddings, np.float32)
    return embeddings if metric == "euclidean" else unit_length(embeddings)


def index_of_kind(kind):
    """Returns the `ApproximateIndex` of a spec, such as `flat`; a ValueError for the one that makes no index."""
    index = registry.create("index", kind)
    if not index.is_approximate:
        raise ValueError(f"kind={kind} does not make an index. Expected flat, ivf, hnsw or pq. The exact one is flat.")
    return index


def build(folder, shards, spec, metric, anew=False, attributes=None, upgrades=None):
    """Writes the index of all embeddings: what there is and the new ones, or all anew, without what is deleted.

    Of two rows of one path the later one is the image, and the other is deleted.

    Args:
        folder: `IndexFolder`.
        shards: its `EmbeddingShards`.
        spec: kind of a new index; one that is there keeps its own.
        metric: `cosine` or `euclidean`, of a new index or of another model; one that is there keeps its own.
        anew: whether the vectors of an index that is there are not used again.
        attributes: table with the column `path` and others; None: no new ones.
        upgrades: how often the index has then got another model; None: as often as it has.
    """
    if not len(shards):
        _write_bad(folder, shards)
        raise ValueError(f"None of {len(shards.bad)} images can be read; {folder.bad_images} says why.")
    manifest = folder.manifest() if folder.exists() else None
    rows = folder.read_rows(manifest) if manifest else None
    spec = manifest["spec"] if manifest else spec
    metric = manifest["metric"] if manifest and upgrades is None else metric
    columns = _columns(shards)
    deleted = _deleted(columns, rows)
    if manifest and not anew and _can_grow(manifest, rows, columns["id"], deleted):
        index, start = folder.read_index(manifest), manifest["count"]
        kind, trained_on = manifest["kind"], manifest["trained_on"]
    else:
        if deleted.any():
            shards.remove(set(np.array(columns["id"])[deleted].tolist()))
            columns = _columns(shards)
            deleted = np.zeros(len(shards), bool)
        sized = index_of_kind(spec).of_size(len(shards))
        index, kind, trained_on, start = _trained(sized, shards, metric), repr(sized), len(shards), 0
    columns |= joined(rows, columns["id"], columns["path"], attributes)
    bar = ProgressBar(len(shards), "vector", done=start)
    for block in shards.blocks(start):
        index.add(compared_vectors(block.embeddings, metric))
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
    upgrades = (manifest or {}).get("upgrades", 0) if upgrades is None else upgrades
    if upgrades:
        about["upgrades"] = upgrades
    folder.write(index, columns, about, deleted)
    _write_bad(folder, shards)


def _columns(shards):
    """Returns name to list of the ids, paths and labels of all rows."""
    columns = {"id": [], "path": [], "label": []}
    for block in shards.blocks():
        for name, values in zip(columns, (block.ids.tolist(), block.paths, block.labels), strict=True):
            columns[name].extend(values)
    return columns


def _deleted(columns, rows):
    """Returns a mask `[N]` of the rows that are deleted, or whose image has a later row."""
    ids, paths = np.array(columns["id"]), columns["path"]
    known, gone = ((), ()) if rows is None else (rows.ids, rows.ids[rows.deleted])
    deleted = np.isin(ids, gone)
    # Only a row that is new takes the place of another one.
    last = {paths[place]: place for place in np.flatnonzero(~np.isin(ids, known)).tolist()}
    for place, path in enumerate(paths if last else ()):
        deleted[place] |= last.get(path, place) != place
    return deleted


def _can_grow(manifest, rows, ids, deleted):
    """Whether the embeddings are those of the index and new ones after them, and its training is still good enough."""
    # An interrupted deletion leaves fewer embeddings than vectors.
    same = rows.ids.tolist() == ids[: manifest["count"]]
    return same and len(ids) <= GROWTH * manifest["trained_on"] and np.mean(deleted) < GONE


def _trained(index, shards, metric):
    """Returns an index of faiss that is trained on a sample of the embeddings, and empty."""

    def sample(count):
        drawn = np.random.default_rng(0).choice(len(shards), min(count, len(shards)), replace=False)
        return compared_vectors(shards.rows(np.sort(drawn)), metric)

    faiss = load_faiss()
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return index.create(shards.dimension, kind, sample)


def _write_bad(folder, shards):
    folder.bad_images.unlink(missing_ok=True)
    if shards.bad:
        write_list(folder.bad_images, sorted(shards.bad.items()))
