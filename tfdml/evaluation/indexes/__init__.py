"""How the nearest images of queries are found; a protocol's `index` names one."""

from tfdml.evaluation.indexes.approximate import HNSW, IVF, PQ, ApproximateIndex, Exact, Flat
from tfdml.evaluation.indexes.index import Index

__all__ = ["HNSW", "IVF", "PQ", "ApproximateIndex", "Exact", "Flat", "Index"]
