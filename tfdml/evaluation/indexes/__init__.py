"""How the nearest images of queries are found, one a file; a protocol's `index` names one."""

from tfdml.evaluation.indexes.approximate_index import ApproximateIndex
from tfdml.evaluation.indexes.exact import Exact
from tfdml.evaluation.indexes.flat import Flat
from tfdml.evaluation.indexes.hnsw import HNSW
from tfdml.evaluation.indexes.index import Index
from tfdml.evaluation.indexes.ivf import IVF
from tfdml.evaluation.indexes.pq import PQ

__all__ = ["HNSW", "IVF", "PQ", "ApproximateIndex", "Exact", "Flat", "Index"]
