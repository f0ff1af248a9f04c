"""Rows of an index as points in Qdrant."""

import copy
import dataclasses
import os
import threading
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.serving.index.attributes import OWN
from tfdml.serving.index.filters import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not, pushed
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.stores.engine import EngineStore, objects_of
from tfdml.serving.index.stores.store import Description, StoreError

PORT, COLLECTION = 6333, "images"
# Time limit of a call, in seconds.
SECONDS = 30
# Separates the name of an index from the number of its collection.
NUMBERED = "~"


def read_address(address):
    """Returns the arguments of the client and the name of the collection."""
    if not address.startswith("//"):
        return {"path": os.path.abspath(address), "force_disable_check_same_thread": True}, COLLECTION
    parts, expected = urlsplit(f"qdrant:{address}"), "Expected qdrant://host:6333/photos"
    options, collection = dict(parse_qsl(parts.query)), parts.path.strip("/")
    if parts.username or parts.password or options.keys() - {"https"}:
        raise ValueError(
            f"The address of Qdrant contains a secret or an unknown option. {expected}, with a key in QDRANT_API_KEY."
        )
    if not parts.hostname or not collection or set(collection) & {"/", NUMBERED}:
        raise ValueError(f"qdrant:{address} is not a valid address. {expected}.")
    server = {"host": parts.hostname, "port": parts.port or PORT, "https": options.get("https") == "true"}
    return {**server, "api_key": os.environ.get("QDRANT_API_KEY") or None, "timeout": SECONDS}, collection


def client(options):
    """Returns the client for the result of `read_address`."""
    from qdrant_client import QdrantClient

    with warnings.catch_warnings():
        # Hide warnings about a key without TLS and about other server versions, which docs/vector_databases.md covers.
        warnings.simplefilter("ignore")
        return QdrantClient(**options, check_compatibility=False)


# Seconds to wait before a call is repeated.
PAUSES = (0.2, 1.0)


def called(store, function, tries, *arguments, **named):
    """Returns the result of a call. Raises a `StoreError` if the server does not answer, a ValueError if it refuses.

    Only calls that are safe to repeat have several tries, because without an answer nobody knows whether a call was
    done.
    """
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    for pause in [*PAUSES[: tries - 1], None]:
        try:
            return function(*arguments, **named)
        except (ResponseHandlingException, httpx.HTTPError, ConnectionError) as error:
            reason = error
        except UnexpectedResponse as error:
            if error.status_code < 500:
                raise ValueError(f"{store} refused the request: {_line(error)}.") from error
            reason = error
        except RuntimeError as error:
            # Another process has opened the folder.
            raise StoreError(f"{store}: {_line(error)}.") from error
        if pause is not None:
            time.sleep(pause)
    raise StoreError(
        f"{store} does not answer or cannot continue: {_line(reason)}. Repeat the command to continue."
    ) from reason


def _line(error):
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


RANGES = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def filter_of(condition):
    """Returns the Qdrant `Filter` of a condition. Raises a ValueError if Qdrant has no such filter."""
    from qdrant_client.models import Filter

    return Filter(must=[_of(pushed(condition))])


def key_of(name):
    """Returns the key of a column in a point's payload."""
    return name if name in OWN else f'attributes."{name}"'


def _of(condition):
    from qdrant_client.models import Filter

    match condition:
        case All(several):
            return Filter(must=list(map(_of, several)))
        case AnyOf(several):
            return Filter(should=list(map(_of, several)))
        case Compared(name, kind, "=", value):
            return _among(name, kind, (value,))
        case Compared(name, kind, "!=", value):
            return _of(Not(Among(name, kind, (value,))))
        case Compared(name, kind, sign, value):
            return _range(name, kind, **{RANGES[sign]: value}, sign=sign)
        case ComparedColumns(name, _, _, other):
            raise ValueError(
                f"Qdrant can only compare a column with a value. Received: {name} and {other}, which are both columns."
            )
        case Among(name, kind, values):
            return _among(name, kind, values)
        case Missing(name):
            return _missing(name)
        case Not(Among(name, kind, values)):
            return Filter(must_not=[_among(name, kind, values), _missing(name)])
        case Not(Missing(name)):
            return Filter(must_not=[_missing(name)])


def _missing(name):
    from qdrant_client.models import IsEmptyCondition, PayloadField

    return IsEmptyCondition(is_empty=PayloadField(key=key_of(name)))


def _among(name, kind, values):
    from qdrant_client.models import FieldCondition, Filter, MatchAny, MatchValue

    key = key_of(name)
    if kind == "text" or name == "id" and all(isinstance(value, int) for value in values):
        return FieldCondition(key=key, match=MatchAny(any=list(values)))
    if kind == "boolean":
        return Filter(should=[FieldCondition(key=key, match=MatchValue(value=value)) for value in values])
    return Filter(should=[_range(name, kind, gte=value, lte=value) for value in values])


def _range(name, kind, sign="=", **limits):
    from qdrant_client.models import DatetimeRange, FieldCondition, Range

    if kind not in ("number", "time"):
        raise ValueError(f"Qdrant cannot order {kind} columns. Received: {name} {sign}. Use = or in.")
    return FieldCondition(key=key_of(name), range=(Range if kind == "number" else DatetimeRange)(**limits))


def number_of(path):
    """Returns the id of a row's point, which is derived from the path."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, path))


def with_ids(ids):
    """Returns the filter for the points of rows with these ids."""
    from qdrant_client.models import FieldCondition, Filter, MatchAny

    return Filter(must=[FieldCondition(key="id", match=MatchAny(any=list(map(int, ids))))])


# Index types that compress vectors, which HNSW then searches with its default arguments.
QUANTIZED = ("int8", "binary")


def graph_of(index):
    """Returns the `hnsw` index with the arguments of an index, which are the defaults for compressed vectors."""
    return index_of_kind("hnsw") if index.name in QUANTIZED else index


def quantization_of(index):
    """Returns Qdrant's quantization for an `int8` or `binary` index."""
    from qdrant_client import models

    if index.name == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    return models.ScalarQuantization(scalar=scalar)


def search_of(index, k, exact):
    """Returns the parameters of a search for `k` points. If `exact`, all points are compared by their own vectors."""
    from qdrant_client import models

    again = models.QuantizationSearchParams(ignore=True)
    if exact:
        return models.SearchParams(exact=True, quantization=again if index.name in QUANTIZED else None)
    if index.name not in QUANTIZED:
        return models.SearchParams(hnsw_ef=max(index.ef_search, k))
    again = models.QuantizationSearchParams(rescore=index.rescore > 0, oversampling=max(index.rescore, 1))
    return models.SearchParams(hnsw_ef=max(graph_of(index).ef_search, k * max(index.rescore, 1)), quantization=again)


VERSION = 1
# Points per request.
POINTS = 256
SHOWN = ["id", "path", "label"]
PAYLOAD = [*SHOWN, "attributes"]
# Qdrant's names for the kinds of columns.
SCHEMAS = {"text": "keyword", "number": "float", "boolean": "bool", "time": "datetime"}


@register("store", "qdrant")
class Qdrant(EngineStore):
    """Store in a Qdrant collection, on a server or a cluster, or in a folder for tests.

    The id of a point is derived from its path, so writing a row again replaces its point. The collection's metadata
    describes the index. The name of the index is an alias of the collection, which an upgrade points to another
    collection.

    Args:
        address: `//host:6333/photos` for the collection `photos` on a server, with `?https=true` for TLS and the key in
            the environment variable QDRANT_API_KEY; or a folder.
        model, kind, metric: See `Store`.
    """

    kinds = ("flat", "hnsw", "int8", "binary")

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        try:
            import qdrant_client  # noqa: F401
        except ImportError as error:
            raise ImportError("Qdrant stores need qdrant-client: pip install 'tfdml[qdrant]'.") from error
        self._options, self._collection = read_address(address)
        super().__init__(f"qdrant:{address}", model, kind, metric)
        self._is_local, self._opened, self._lock = "path" in self._options, None, threading.Lock()

    def _call(self, name, tries=1, **arguments):
        with self._lock:
            if self._opened is None:
                self._opened = called(self, client, 1, self._options)
        return called(self, getattr(self._opened, name), tries, **arguments)

    def description(self) -> Description | None:
        if self._is_local and self._opened is None and not Path(self._options["path"]).is_dir():
            # The client would create the folder.
            return None
        found = self._metadata()
        return found and Description(*[found[field.name] for field in dataclasses.fields(Description)])

    def _metadata(self):
        if not self._call("collection_exists", collection_name=self._collection):
            return None
        found = (self._call("get_collection", collection_name=self._collection).config.metadata or {}).get("tfdml")
        if found is None:
            raise ValueError(f"{self} has a collection with this name that is not an index. Use another name.")
        if found["version"] != VERSION:
            raise ValueError(
                f"{self} has the layout version {found['version']}. This version of tfdml reads version {VERSION}."
            )
        return found

    def prepare(self, dimension: int, next_id: int, table: Any = None) -> None:
        if self._is_local:
            raise ValueError(f"{self} is a folder, which supports only one worker. Use --workers=1.")
        super().prepare(dimension, next_id, table)

    def _create(self, description):
        name = f"{self._collection}{NUMBERED}1"
        self._make(name, description)
        self._point_at(name)

    def _make(self, name, description):
        """Creates a collection, unless a killed process has already created it."""
        from qdrant_client import models

        if self._call("collection_exists", collection_name=name):
            return
        distance = models.Distance.EUCLID if description.metric == "euclidean" else models.Distance.DOT
        index, about = self.index_of(description.kind), {}
        if index.name != "flat":
            graph = graph_of(index)
            about["hnsw_config"] = models.HnswConfigDiff(m=graph.m, ef_construct=graph.ef_construction)
        if index.name in QUANTIZED:
            # The compressed vectors are in memory, and the others on the disk.
            about |= {"quantization_config": quantization_of(index), "datatype": index.stored, "on_disk": True}
        self._call(
            "create_collection",
            collection_name=name,
            vectors_config=models.VectorParams(size=description.dimension, distance=distance, **about),
            metadata={"tfdml": {"version": VERSION, "next_id": 0, **dataclasses.asdict(description)}},
        )
        self._index_payload(name, {"id": "integer", "label": "keyword"})

    def _index_payload(self, name, schemas):
        # The client in local mode has no payload indexes.
        for key, schema in {} if self._is_local else schemas.items():
            options = {"collection_name": name, "field_name": key, "field_schema": schema}
            self._call("create_payload_index", tries=3, **options)

    def _point_at(self, name):
        """Points the name of the index to a collection, atomically."""
        from qdrant_client import models

        alias = models.CreateAlias(collection_name=name, alias_name=self._collection)
        actions = [models.CreateAliasOperation(create_alias=alias)]
        if self._behind() != self._collection:
            deletion = models.DeleteAlias(alias_name=self._collection)
            actions.insert(0, models.DeleteAliasOperation(delete_alias=deletion))
        self._call("update_collection_aliases", change_aliases_operations=actions)

    def _behind(self):
        """Returns the collection that the name refers to, or the name itself."""
        found = self._call("get_aliases").aliases
        return {each.alias_name: each.collection_name for each in found}.get(self._collection, self._collection)

    def _reserve(self, count, after, columns):
        for name in columns:
            if '"' in name:
                raise ValueError(f"An attribute name in Qdrant cannot contain a quotation mark. Received: {name!r}.")
        found = self._metadata()
        last = max(found["next_id"] + count, after)
        changed = {**found, "next_id": last, "columns": {**columns, **found["columns"]}}
        if changed != found:
            self._note(changed)
        self._index_payload(self._collection, {key_of(name): SCHEMAS[kind] for name, kind in columns.items()})
        return last - count

    def _note(self, metadata):
        name = self._behind()
        self._call("update_collection", tries=3, collection_name=name, metadata={"tfdml": metadata})

    def _write(self, ids, vectors, table):
        rows = zip(ids.tolist(), table["path"].to_pylist(), table["label"].to_pylist(), objects_of(table), strict=True)
        self._send([dict(zip(PAYLOAD, row, strict=True)) for row in rows], vectors)

    def _send(self, payloads, vectors):
        from qdrant_client.models import PointStruct

        points = [
            PointStruct(id=number_of(payload["path"]), vector=vector, payload=payload)
            for payload, vector in zip(payloads, vectors.tolist(), strict=True)
        ]
        for start in range(0, len(points), POINTS):
            part = points[start : start + POINTS]
            self._call("upsert", tries=3, collection_name=self._collection, points=part, wait=True)

    def _delete(self, ids, compact):
        from qdrant_client import models

        missing = ids - self.find(ids).keys()
        if missing:
            raise ValueError(f"The id {min(missing)} is not in the index {self}, so nothing was deleted.")
        selector = models.FilterSelector(filter=with_ids(ids))
        self._call("delete", tries=3, collection_name=self._collection, points_selector=selector, wait=True)

    def _count(self, condition):
        taken = None if condition is None else filter_of(condition)
        return self._call("count", collection_name=self._collection, count_filter=taken, exact=True).count

    def find(self, ids: Iterable[int] = (), paths: Iterable[str] = ()) -> dict[int, str]:
        ids, numbers, points = list(ids), list(map(number_of, paths)), []
        if not (ids or numbers) or self.description() is None:
            return {}
        options = {"collection_name": self._collection, "with_payload": SHOWN}
        if ids:
            points += self._call("scroll", scroll_filter=with_ids(ids), limit=len(ids), **options)[0]
        if numbers:
            points += self._call("retrieve", ids=numbers, **options)
        return {point.payload["id"]: point.payload["path"] for point in points}

    def _nearest(self, description, vectors, k, condition, exact):
        from qdrant_client import models

        taken = None if condition is None else filter_of(condition)
        # The client in local mode always compares all points, and warns about other parameters.
        searched = None if self._is_local else search_of(self.index_of(description.kind), k, exact)
        options = {"filter": taken, "limit": k, "with_payload": SHOWN, "params": searched}
        requests = [models.QueryRequest(query=vector, **options) for vector in vectors.tolist()]
        found = self._call("query_batch_points", collection_name=self._collection, requests=requests)
        return [[(*map(point.payload.get, SHOWN), point.score) for point in each.points] for each in found]

    def successor(self, description: Description) -> Self:
        base, _, number = self._behind().rpartition(NUMBERED)
        if base != self._collection or not number.isdigit():
            why = "is a collection and not an alias, so it cannot be replaced atomically"
            raise ValueError(f"{self} {why}. Load another index with the new model.")
        found = copy.copy(self)
        found._collection, found.model, found.kind = f"{base}{NUMBERED}{int(number) + 1}", None, None
        found.metric, there = description.metric, found.description()
        if there is not None and dataclasses.replace(there, columns=description.columns) != description:
            self._call("delete_collection", collection_name=found._collection)
        found._make(found._collection, description)
        return found

    def pages(self, count: int) -> Iterator[list[tuple[int, str]]]:
        options, offset = {"collection_name": self._collection, "limit": count, "with_payload": SHOWN}, None
        while True:
            points, offset = self._call("scroll", offset=offset, **options)
            if points:
                yield [(point.payload["id"], point.payload["path"]) for point in points]
            if offset is None:
                return

    def _take_vectors(self, ids, vectors, of):
        options = {"scroll_filter": with_ids(ids), "limit": len(ids), "with_payload": True}
        points, _ = of._call("scroll", collection_name=of._collection, **options)
        places = {id: place for place, id in enumerate(ids)}
        payloads = [point.payload for point in points]
        self._send(payloads, vectors[[places[payload["id"]] for payload in payloads]])

    def take_place(self, of: Self) -> bool:
        for page in self.pages(POINTS):
            there = of.find([id for id, _ in page])
            gone = {id for id, path in page if there.get(id) != path}
            if gone:
                self._delete(gone, False)
        if self.count() != of.count():
            return False
        new, old, before = self._metadata(), of._metadata(), of._behind()
        self._note({**old, **{name: new[name] for name in ("model", "dimension", "metric")}})
        self._index_payload(self._collection, {key_of(name): SCHEMAS[kind] for name, kind in old["columns"].items()})
        of._point_at(self._collection)
        self._call("delete_collection", collection_name=before)
        return True

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
