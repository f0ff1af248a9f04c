"""Samplers: they choose the images of each batch, as a pure function of the seed, the step and replaceable tables.

A sampler is bound to labels once, which creates its tables as variables. `tables()` reads them at the start of an
epoch. `rows(seed, steps, tables)` computes the batches of any steps, in any order, with the same result. `Sampler` is
the base class, also for your own samplers.
"""

from pipelines.sampling.clusters import Clusters, WithinClusters
from pipelines.sampling.corpus import CorpusNegatives
from pipelines.sampling.draws import ImageNumbers, each_alone, group_by_class
from pipelines.sampling.others import Exchanged, Given, HardNeighbors, PseudoClasses, Uniform
from pipelines.sampling.pairs import Pairs, Triplets, Views
from pipelines.sampling.pxk import ProportionalPxK, PxK
from pipelines.sampling.sampler import Sampler

__all__ = [
    "Clusters",
    "CorpusNegatives",
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
