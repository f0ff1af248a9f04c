"""Rows as points of Qdrant."""

import uuid

from tfdml.serving.index.stores.attribute_rows import objects_of


def number_of(path):
    """Returns the number of a point, which follows from the path of its row."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, path))


def points_of(ids, vectors, table):
    """Returns the points of rows, see `Store.add`."""
    paths, labels = table["path"].to_pylist(), table["label"].to_pylist()
    payloads = [
        {"id": id, "path": path, "label": label, "attributes": attributes}
        for id, path, label, attributes in zip(ids.tolist(), paths, labels, objects_of(table), strict=True)
    ]
    return points_with(payloads, vectors)


def points_with(payloads, vectors):
    """Returns the points of payloads."""
    from qdrant_client.models import PointStruct

    return [
        PointStruct(id=number_of(payload["path"]), vector=vector, payload=payload)
        for payload, vector in zip(payloads, vectors.tolist(), strict=True)
    ]


def with_ids(ids):
    """Returns the filter that takes the points of some rows."""
    from qdrant_client.models import FieldCondition, Filter, MatchAny

    return Filter(must=[FieldCondition(key="id", match=MatchAny(any=list(map(int, ids))))])
