"""Indexes, which find the nearest images of queries. The `index` of a protocol names one."""

from tfdml.evaluation.indexes.approximate import HNSW, IVF, PQ, ApproximateIndex, Exact, Flat
from tfdml.evaluation.indexes.index import Index

__all__ = ["HNSW", "IVF", "PQ", "ApproximateIndex", "Exact", "Flat", "Index"]
