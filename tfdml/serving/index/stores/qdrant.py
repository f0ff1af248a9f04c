"""`Qdrant`: the rows of an index as points of Qdrant."""

import dataclasses
import os
import threading
import uuid
import warnings
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tfdml.registry import register
from tfdml.registry.annotations import Distance
from tfdml.serving.index.stores.about import About
from tfdml.serving.index.stores.attribute_rows import objects_of
from tfdml.serving.index.stores.engine_store import EngineStore
from tfdml.serving.index.stores.qdrant_calls import called
from tfdml.serving.index.stores.qdrant_filter import filter_of, key_of

VERSION, PORT, COLLECTION = 1, 6333, "images"
# Points that are sent at once, and seconds of a call.
POINTS, SECONDS = 256, 30
SHOWN = ["id", "path", "label"]
# Kind of a column to what Qdrant calls it.
SCHEMAS = {"text": "keyword", "number": "float", "boolean": "bool", "time": "datetime"}


@register("store", "qdrant")
class Qdrant(EngineStore):
    """Rows as points of a collection of Qdrant: of a server or a cluster, or in a folder, for tests.

    The number of a point follows from its path, so that a row that is written again is the same point. The collection's
    metadata says what the index is.

    Args:
        address: `//host:6333/photos`, the collection `photos` of a server, with `?https=true` for TLS and its key in
            the environment variable QDRANT_API_KEY; or a folder.
        model, kind, metric: see `Store`.
    """

    kinds = ("flat", "hnsw")

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        try:
            import qdrant_client  # noqa: F401
        except ImportError as error:
            raise ImportError("Qdrant needs qdrant-client: pip install 'tfdml[qdrant]'.") from error
        self._options, self._collection = _read_address(address)
        super().__init__(f"qdrant:{address}", model, kind, metric)
        self._is_local, self._opened, self._lock = "path" in self._options, None, threading.Lock()

    def _call(self, name, tries=1, **arguments):
        with self._lock:
            if self._opened is None:
                self._opened = called(self, _client, 1, self._options)
        return called(self, getattr(self._opened, name), tries, **arguments)

    def about(self) -> About | None:
        if self._is_local and self._opened is None and not Path(self._options["path"]).is_dir():
            # The client would make it.
            return None
        found = self._metadata()
        if found is None:
            return None
        return About(*[found[field.name] for field in dataclasses.fields(About)])

    def _metadata(self):
        if not self._call("collection_exists", collection_name=self._collection):
            return None
        found = (self._call("get_collection", collection_name=self._collection).config.metadata or {}).get("tfdml")
        if found is None:
            raise ValueError(f"{self} has a collection of this name that is no index; give another one.")
        if found["version"] != VERSION:
            raise ValueError(f"{self} has the layout {found['version']}; this tfdml reads the layout {VERSION}.")
        return found

    def _create(self, about):
        from qdrant_client import models

        distance = models.Distance.EUCLID if about.metric == "euclidean" else models.Distance.DOT
        index, graph = self.index_of(about.kind), None
        if index.name == "hnsw":
            graph = models.HnswConfigDiff(m=index.m, ef_construct=index.ef_construction)
        self._call(
            "create_collection",
            collection_name=self._collection,
            vectors_config=models.VectorParams(size=about.dimension, distance=distance, hnsw_config=graph),
            metadata={"tfdml": {"version": VERSION, "next_id": 0, **dataclasses.asdict(about)}},
        )
        self._index_payload({"id": "integer", "label": "keyword"})

    def _index_payload(self, schemas):
        # The client alone has no such indexes.
        for key, schema in {} if self._is_local else schemas.items():
            about = {"collection_name": self._collection, "field_name": key, "field_schema": schema}
            self._call("create_payload_index", tries=3, **about)

    def _reserve(self, count, after, columns):
        wrong = next((name for name in columns if '"' in name), None)
        if wrong is not None:
            raise ValueError(f"An attribute of Qdrant cannot have the name {wrong!r}, with a quote.")
        found = self._metadata()
        last = max(found["next_id"] + count, after)
        changed = {**found, "next_id": last, "columns": {**columns, **found["columns"]}}
        if changed != found:
            metadata = {"tfdml": changed}
            self._call("update_collection", tries=3, collection_name=self._collection, metadata=metadata)
        self._index_payload({key_of(name): SCHEMAS[kind] for name, kind in columns.items()})
        return last - count

    def _write(self, ids, vectors, table):
        from qdrant_client import models

        paths, labels = table["path"].to_pylist(), table["label"].to_pylist()
        rows = zip(ids.tolist(), paths, labels, objects_of(table), vectors.tolist(), strict=True)
        points = [
            models.PointStruct(
                id=_number(path),
                vector=vector,
                payload={"id": id, "path": path, "label": label, "attributes": attributes},
            )
            for id, path, label, attributes, vector in rows
        ]
        for start in range(0, len(points), POINTS):
            part = points[start : start + POINTS]
            self._call("upsert", tries=3, collection_name=self._collection, points=part, wait=True)

    def _delete(self, ids, compact):
        from qdrant_client import models

        missing = ids - self.paths_of(ids).keys()
        if missing:
            raise ValueError(f"{min(missing)} is not in the index {self}, and nothing is deleted.")
        selector = models.FilterSelector(filter=_of_ids(ids))
        self._call("delete", tries=3, collection_name=self._collection, points_selector=selector, wait=True)

    def _count(self, condition):
        taken = None if condition is None else filter_of(condition)
        return self._call("count", collection_name=self._collection, count_filter=taken, exact=True).count

    def paths_of(self, ids: Iterable[int]) -> dict[int, str]:
        ids = list(ids)
        if not ids or self.about() is None:
            return {}
        about = {"scroll_filter": _of_ids(ids), "limit": len(ids), "with_payload": SHOWN}
        points, _ = self._call("scroll", collection_name=self._collection, **about)
        return {point.payload["id"]: point.payload["path"] for point in points}

    def ids_of(self, paths: Iterable[str]) -> dict[str, int]:
        numbers = list(map(_number, paths))
        if not numbers or self.about() is None:
            return {}
        points = self._call("retrieve", collection_name=self._collection, ids=numbers, with_payload=SHOWN)
        return {point.payload["path"]: point.payload["id"] for point in points}

    def _nearest(self, about, vectors, k, condition, exact):
        from qdrant_client import models

        index, taken = self.index_of(about.kind), None if condition is None else filter_of(condition)
        searched = models.SearchParams(exact=True) if exact else models.SearchParams(hnsw_ef=max(index.ef_search, k))
        if self._is_local:
            # The client alone compares all, and warns of other wishes.
            searched = None
        about = {"filter": taken, "limit": k, "with_payload": SHOWN, "params": searched}
        requests = [models.QueryRequest(query=vector, **about) for vector in vectors.tolist()]
        found = self._call("query_batch_points", collection_name=self._collection, requests=requests)
        return [[(*map(point.payload.get, SHOWN), point.score) for point in each.points] for each in found]

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None


def _read_address(address):
    """Returns what the client takes, and the collection."""
    if not address.startswith("//"):
        return {"path": os.path.abspath(address), "force_disable_check_same_thread": True}, COLLECTION
    parts, expected = urlsplit(f"qdrant:{address}"), "expected qdrant://host:6333/photos"
    options, collection = dict(parse_qsl(parts.query)), parts.path.strip("/")
    if parts.username or parts.password or options.keys() - {"https"}:
        raise ValueError(f"The address of Qdrant has a secret or an unknown option; {expected}, and QDRANT_API_KEY.")
    if not parts.hostname or not collection or "/" in collection:
        raise ValueError(f"qdrant:{address}: {expected}.")
    about = {"host": parts.hostname, "port": parts.port or PORT, "https": options.get("https") == "true"}
    return {**about, "api_key": os.environ.get("QDRANT_API_KEY") or None, "timeout": SECONDS}, collection


def _client(options):
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        # That a key is sent without TLS, or that the server has another version: docs/stores.md says so.
        warnings.simplefilter("ignore")
        return QdrantClient(**options, check_compatibility=False)


def _number(path):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, path))


def _of_ids(ids):
    from qdrant_client import models

    return models.Filter(must=[models.FieldCondition(key="id", match=models.MatchAny(any=list(ids)))])
