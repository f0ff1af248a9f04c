"""Evaluation with a mistake in each marked line."""

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

embeddings, labels = np.zeros((8, 4), "float32"), np.arange(8)
model = tfdml.Single(tfdml.backbones.Small())
tfdml.evaluation.evaluate(embeddings)  # marked
tfdml.evaluation.evaluate(embeddings, labels, metrics=1)  # marked
tfdml.evaluation.evaluate(embeddings, labels, distance="l2")  # marked
tfdml.evaluation.evaluate(embeddings, labels, query=None)  # marked
tfdml.evaluation.evaluate(embeddings, None)  # marked
tfdml.evaluation.diversity(embeddings, labels, 2)  # marked
tfdml.evaluation.diversity(embeddings, labels, "2", dict)  # marked
tfdml.evaluation.cost(model)  # marked
tfdml.evaluation.Embedder("model")  # marked
tfdml.evaluation.Embedder(model, verbosity=0)  # marked

RecallAtK()  # marked
CMCAtK(rank=5)  # marked
PrecisionAtK("10")  # marked
RPrecision(10)  # marked
MAPAtR(k=10)  # marked
MeanAveragePrecision(trapezoid="yes")  # marked
MeanReciprocalRank(1)  # marked
RocAUC(8)  # marked
EqualErrorRate(8)  # marked
TarAtFar()  # marked
PairAccuracy(8)  # marked
PairAccuracyThreshold(8)  # marked
PairAveragePrecision(8)  # marked
DPrime(8)  # marked
OPIS(low="0.1")  # marked
DirAtFar()  # marked
NMI(8)  # marked
AMI(8)  # marked
ARI(8)  # marked
PairwiseF1(8)  # marked
Purity(8)  # marked
Alignment(alpha=2.0)  # marked
Uniformity(temperature=2.0)  # marked
EffectiveRank(1)  # marked
DeadDimensions("0.01")  # marked
Hubness(neighbors=5)  # marked
HierarchicalAP(alpha="1")  # marked
AverageSetIntersection(alpha=1)  # marked
NDCG(k=5)  # marked
GradedMAP(k=5)  # marked
RelevanceAtK()  # marked
MistakeSeverity(levels=3)  # marked
NeighborsKept(neighbors=5)  # marked
GivenPairs(pairs=3)  # marked
Levels(distance="l2")  # marked
SeveralLabels(distance="l2")  # marked
InterClassDistance("euclidean")  # marked
IntraClassDistance("euclidean")  # marked
DistanceRatio("euclidean")  # marked

SelfRetrieval(metric="recall_at_1")  # marked
SelfRetrieval(distance="dot")  # marked
QueryGallery(pooling="average")  # marked
QueryGallery(junk="-1")  # marked
RandomGallery(draw=10)  # marked

DatabaseAugmentation(beta=0.0)  # marked
KReciprocal(k1="20")  # marked
QueryExpansion(neighbors=5)  # marked
RandomWalk(restart="0.8")  # marked

Exact(1)  # marked
Flat(lists=100)  # marked
HNSW(ef=16)  # marked
IVF(probes="8")  # marked
PQ(subvector=8)  # marked
