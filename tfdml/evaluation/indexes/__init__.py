"""Indexes, which find the nearest images of queries. The `index` of a protocol names one."""

from tfdml.evaluation.indexes.approximate import (
    HNSW,
    IVF,
    PQ,
    ApproximateIndex,
    Binary,
    CompressedIndex,
    Exact,
    Flat,
    Int8,
)
from tfdml.evaluation.indexes.index import Index

__all__ = ["HNSW", "IVF", "PQ", "ApproximateIndex", "Binary", "CompressedIndex", "Exact", "Flat", "Index", "Int8"]
