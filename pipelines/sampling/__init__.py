"""Samplers: the rows of each batch, as a pure function of (seed, step) and of tables that may be replaced.

A sampler is bound to labels once; that makes its tables, which are variables. `tables()` reads them, at the start of
an epoch, and `rows(seed, steps, tables)` computes the batches of any steps, in any order, with the same result.
`Sampler` is the base of all, also of a user's own.
"""

from pipelines.sampling.clusters import Clusters
from pipelines.sampling.exchanged import Exchanged
from pipelines.sampling.given import Given
from pipelines.sampling.hard_neighbors import HardNeighbors
from pipelines.sampling.image_numbers import ImageNumbers
from pipelines.sampling.pairs import Pairs
from pipelines.sampling.proportional_pxk import ProportionalPxK
from pipelines.sampling.pseudo_classes import PseudoClasses
from pipelines.sampling.pxk import PxK
from pipelines.sampling.rows_by_class import each_alone, group_by_class
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.triplets import Triplets
from pipelines.sampling.uniform import Uniform
from pipelines.sampling.views import Views
from pipelines.sampling.within_clusters import WithinClusters

__all__ = [
    "Clusters",
    "Exchanged",
    "Given",
    "HardNeighbors",
    "ImageNumbers",
    "Pairs",
    "ProportionalPxK",
    "PseudoClasses",
    "PxK",
    "Sampler",
    "Triplets",
    "Uniform",
    "Views",
    "WithinClusters",
    "each_alone",
    "group_by_class",
]
