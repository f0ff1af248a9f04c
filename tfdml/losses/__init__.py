"""Losses for metric learning, which are Keras losses."""

from tfdml.losses import addons, distances, miners
from tfdml.losses.angular import Angular
from tfdml.losses.arc_face import ArcFace, SubCenterArcFace
from tfdml.losses.barlow_twins import BarlowTwins
from tfdml.losses.base import AllPairsLoss, DistanceLoss, EmbeddingLoss, PairLoss
from tfdml.losses.binomial_deviance import BinomialDeviance
from tfdml.losses.circle import Circle
from tfdml.losses.composites import ByLevel, Divergence, Nested, WeightedSum
from tfdml.losses.contrastive import Contrastive
from tfdml.losses.cos_face import CosFace, NormSoftmax
from tfdml.losses.fast_ap import FastAP
from tfdml.losses.generalized_cross_entropy import GeneralizedCrossEntropy
from tfdml.losses.histogram import Histogram
from tfdml.losses.hyperbolic import HyperbolicNTXent
from tfdml.losses.image_text import ImageText, ScaleAndBias
from tfdml.losses.lifted_structure import LiftedStructure
from tfdml.losses.manifold import ContextualManifold, IntrinsicManifold, ManifoldNPair
from tfdml.losses.margin import Margin
from tfdml.losses.multi_similarity import MultiSimilarity
from tfdml.losses.n_pair import NPair, NTXent
from tfdml.losses.nca import NCA
from tfdml.losses.potential_field import PotentialField
from tfdml.losses.proxy_anchor import ProxyAnchor
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.losses.proxy_nca import ProxyNCA, ProxyNPair
from tfdml.losses.ranked_list import RankedList, RankedListSimpler
from tfdml.losses.recall_at_k import RecallAtK
from tfdml.losses.regularizers import (
    AntiCollapse,
    CenterInvariance,
    Decorrelation,
    LpNorm,
    RegularFace,
    Regularizer,
    SparseCenters,
    Uniformity,
    ZeroMean,
)
from tfdml.losses.simsiam import SimSiam
from tfdml.losses.smooth_ap import PNP, SmoothAP
from tfdml.losses.soft_triple import SoftTriple
from tfdml.losses.sphere_face import LargeMarginSoftmax, P2SGrad, SphereFace
from tfdml.losses.sup_con import SupCon
from tfdml.losses.teacher import ReferenceLoss, Teacher, TowardInitial
from tfdml.losses.threshold_consistent_margin import ThresholdConsistentMargin
from tfdml.losses.triplet import Triplet
from tfdml.losses.tuplet_margin import IntraPairVariance, TupletMargin
from tfdml.losses.vicreg import VICReg

__all__ = [
    "AllPairsLoss",
    "Angular",
    "AntiCollapse",
    "ArcFace",
    "BarlowTwins",
    "BinomialDeviance",
    "ByLevel",
    "CenterInvariance",
    "Circle",
    "ContextualManifold",
    "Contrastive",
    "CosFace",
    "DistanceLoss",
    "Decorrelation",
    "Divergence",
    "EmbeddingLoss",
    "FastAP",
    "GeneralizedCrossEntropy",
    "Histogram",
    "ImageText",
    "IntraPairVariance",
    "HyperbolicNTXent",
    "IntrinsicManifold",
    "LargeMarginSoftmax",
    "LiftedStructure",
    "LpNorm",
    "ManifoldNPair",
    "Margin",
    "MultiSimilarity",
    "NCA",
    "NPair",
    "NTXent",
    "Nested",
    "NormSoftmax",
    "P2SGrad",
    "PNP",
    "PairLoss",
    "PotentialField",
    "ProxyAnchor",
    "ProxyLoss",
    "ProxyNCA",
    "ProxyNPair",
    "RankedList",
    "RankedListSimpler",
    "ScaleAndBias",
    "RecallAtK",
    "ReferenceLoss",
    "RegularFace",
    "Regularizer",
    "SimSiam",
    "SmoothAP",
    "SoftTriple",
    "SphereFace",
    "SparseCenters",
    "SubCenterArcFace",
    "SupCon",
    "Teacher",
    "ThresholdConsistentMargin",
    "TowardInitial",
    "Triplet",
    "TupletMargin",
    "Uniformity",
    "VICReg",
    "WeightedSum",
    "ZeroMean",
    "addons",
    "distances",
    "miners",
]
