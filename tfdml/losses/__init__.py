"""Losses, which are Keras losses: one per file."""

from tfdml.losses import addons
from tfdml.losses.angular import Angular
from tfdml.losses.arc_face import ArcFace
from tfdml.losses.barlow_twins import BarlowTwins
from tfdml.losses.binomial_deviance import BinomialDeviance
from tfdml.losses.by_level import ByLevel
from tfdml.losses.circle import Circle
from tfdml.losses.contextual_manifold import ContextualManifold
from tfdml.losses.contrastive import Contrastive
from tfdml.losses.cos_face import CosFace
from tfdml.losses.divergence import Divergence
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.fast_ap import FastAP
from tfdml.losses.generalized_cross_entropy import GeneralizedCrossEntropy
from tfdml.losses.histogram import Histogram
from tfdml.losses.intrinsic_manifold import IntrinsicManifold
from tfdml.losses.lifted_structure import LiftedStructure
from tfdml.losses.manifold_n_pair import ManifoldNPair
from tfdml.losses.margin import Margin
from tfdml.losses.multi_similarity import MultiSimilarity
from tfdml.losses.n_pair import NPair
from tfdml.losses.nested import Nested
from tfdml.losses.norm_softmax import NormSoftmax
from tfdml.losses.nt_xent import NTXent
from tfdml.losses.proxy_anchor import ProxyAnchor
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.losses.proxy_n_pair import ProxyNPair
from tfdml.losses.proxy_nca import ProxyNCA
from tfdml.losses.ranked_list import RankedList
from tfdml.losses.ranked_list_simpler import RankedListSimpler
from tfdml.losses.simsiam import SimSiam
from tfdml.losses.smooth_ap import SmoothAP
from tfdml.losses.soft_triple import SoftTriple
from tfdml.losses.sub_center_arc_face import SubCenterArcFace
from tfdml.losses.sup_con import SupCon
from tfdml.losses.threshold_consistent_margin import ThresholdConsistentMargin
from tfdml.losses.triplet import Triplet
from tfdml.losses.vicreg import VICReg
from tfdml.losses.weighted_sum import WeightedSum

__all__ = [
    "Angular",
    "ArcFace",
    "BarlowTwins",
    "BinomialDeviance",
    "ByLevel",
    "Circle",
    "ContextualManifold",
    "Contrastive",
    "CosFace",
    "Divergence",
    "EmbeddingLoss",
    "FastAP",
    "GeneralizedCrossEntropy",
    "Histogram",
    "IntrinsicManifold",
    "LiftedStructure",
    "ManifoldNPair",
    "Margin",
    "MultiSimilarity",
    "NPair",
    "NTXent",
    "Nested",
    "NormSoftmax",
    "ProxyAnchor",
    "ProxyLoss",
    "ProxyNCA",
    "ProxyNPair",
    "RankedList",
    "RankedListSimpler",
    "SimSiam",
    "SmoothAP",
    "SoftTriple",
    "SubCenterArcFace",
    "SupCon",
    "ThresholdConsistentMargin",
    "Triplet",
    "VICReg",
    "WeightedSum",
    "addons",
]
