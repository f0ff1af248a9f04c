"""Evaluation as users call it: protocols, metrics, rerankings and indexes."""

import numpy as np

import tfdml
from tfdml.evaluation.indexes.exact import Exact
from tfdml.evaluation.indexes.flat import Flat
from tfdml.evaluation.indexes.hnsw import HNSW
from tfdml.evaluation.indexes.ivf import IVF
from tfdml.evaluation.indexes.pq import PQ
from tfdml.evaluation.metrics.alignment import Alignment
from tfdml.evaluation.metrics.ami import AMI
from tfdml.evaluation.metrics.ari import ARI
from tfdml.evaluation.metrics.average_set_intersection import AverageSetIntersection
from tfdml.evaluation.metrics.cmc_at_k import CMCAtK
from tfdml.evaluation.metrics.d_prime import DPrime
from tfdml.evaluation.metrics.dead_dimensions import DeadDimensions
from tfdml.evaluation.metrics.dir_at_far import DirAtFar
from tfdml.evaluation.metrics.distance_ratio import DistanceRatio
from tfdml.evaluation.metrics.effective_rank import EffectiveRank
from tfdml.evaluation.metrics.equal_error_rate import EqualErrorRate
from tfdml.evaluation.metrics.graded_map import GradedMAP
from tfdml.evaluation.metrics.hierarchical_ap import HierarchicalAP
from tfdml.evaluation.metrics.hubness import Hubness
from tfdml.evaluation.metrics.inter_class_distance import InterClassDistance
from tfdml.evaluation.metrics.intra_class_distance import IntraClassDistance
from tfdml.evaluation.metrics.map_at_r import MAPAtR
from tfdml.evaluation.metrics.mean_average_precision import MeanAveragePrecision
from tfdml.evaluation.metrics.mean_reciprocal_rank import MeanReciprocalRank
from tfdml.evaluation.metrics.mistake_severity import MistakeSeverity
from tfdml.evaluation.metrics.ndcg import NDCG
from tfdml.evaluation.metrics.neighbors_kept import NeighborsKept
from tfdml.evaluation.metrics.nmi import NMI
from tfdml.evaluation.metrics.opis import OPIS
from tfdml.evaluation.metrics.pair_accuracy import PairAccuracy
from tfdml.evaluation.metrics.pair_accuracy_threshold import PairAccuracyThreshold
from tfdml.evaluation.metrics.pair_average_precision import PairAveragePrecision
from tfdml.evaluation.metrics.pairwise_f1 import PairwiseF1
from tfdml.evaluation.metrics.precision_at_k import PrecisionAtK
from tfdml.evaluation.metrics.purity import Purity
from tfdml.evaluation.metrics.r_precision import RPrecision
from tfdml.evaluation.metrics.recall_at_k import RecallAtK
from tfdml.evaluation.metrics.relevance_at_k import RelevanceAtK
from tfdml.evaluation.metrics.roc_auc import RocAUC
from tfdml.evaluation.metrics.tar_at_far import TarAtFar
from tfdml.evaluation.metrics.uniformity import Uniformity
from tfdml.evaluation.protocols.given_pairs import GivenPairs
from tfdml.evaluation.protocols.levels import Levels
from tfdml.evaluation.protocols.query_gallery import QueryGallery
from tfdml.evaluation.protocols.random_gallery import RandomGallery
from tfdml.evaluation.protocols.self_retrieval import SelfRetrieval
from tfdml.evaluation.protocols.several_labels import SeveralLabels
from tfdml.evaluation.rerankings.database_augmentation import DatabaseAugmentation
from tfdml.evaluation.rerankings.k_reciprocal import KReciprocal
from tfdml.evaluation.rerankings.query_expansion import QueryExpansion
from tfdml.evaluation.rerankings.random_walk import RandomWalk

embeddings, labels = np.zeros((8, 4), "float32"), ["a", "b"] * 4
found = tfdml.evaluation.evaluate(embeddings, labels, ("recall_at_1", "nmi"), distance="euclidean", index="ivf")
named = tfdml.evaluation.evaluate(embeddings, np.arange(8), "map_at_r", queries=np.ones(8, bool), apart=[np.arange(8)])
recall: float = found["recall_at_1"]
learners = tfdml.evaluation.diversity(
    embeddings, labels, 2, lambda each: {"recall_at_1": each.shape[0]}, weights=[1, 2]
)
model = tfdml.Single(tfdml.backbones.Small())
counted = tfdml.evaluation.cost(model, (32, 32, 3))["parameters"]
of_images = tfdml.evaluation.Embedder(model, verbose=0)(np.zeros((2, 32, 32, 3)), 2)

ranked = [RecallAtK(1), CMCAtK(k=5), PrecisionAtK(10), RPrecision(), MAPAtR(), MeanAveragePrecision(trapezoid=True)]
more = [MeanReciprocalRank(), NMI(), AMI(), ARI(), PairwiseF1(), Purity()]
of_embeddings = [Alignment(), Uniformity(t=2.0, rows=100), EffectiveRank(), DeadDimensions(fraction=0.01), Hubness(k=5)]
of_pairs = [RocAUC(), EqualErrorRate(), TarAtFar(rate=0.001), PairAccuracy(), PairAccuracyThreshold(), DPrime()]
more_of_pairs = [PairAveragePrecision(), OPIS(low=0.01, high=0.1, steps=100)]
identified = DirAtFar(rate=0.01)
of_levels = [
    HierarchicalAP(alpha=2.0),
    NDCG(),
    AverageSetIntersection(),
    GradedMAP(),
    RelevanceAtK(10),
    MistakeSeverity(),
]
kept = NeighborsKept(k=5)
distances = [InterClassDistance(), IntraClassDistance(), DistanceRatio()]

protocol = SelfRetrieval(metrics=("recall_at_1", "map_at_r"), reranking="query_expansion(k=5)")
streets = QueryGallery("recall_at_1", distance="cosine", junk=-1, pooling="mean")
given = GivenPairs(metrics=("roc_auc",), distance="euclidean")
leveled = Levels("hierarchical_ap")
several = SeveralLabels(("relevance_at_1", "ndcg"), distance="euclidean")
drawn = RandomGallery(draws=10, seed=0, index="hnsw(ef_search=200)")
scores = protocol.with_metrics(["nmi"]).scores(embeddings, None).values

rerankings = [DatabaseAugmentation(k=5), KReciprocal(k1=20, k2=6), QueryExpansion(5, alpha=3.0), RandomWalk(k=None)]
indexes = [Exact(), Flat(), HNSW(m=16), IVF(lists=100, probes=8), PQ(subvectors=8, bits=8)]
