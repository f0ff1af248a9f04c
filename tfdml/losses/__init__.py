"""Losses: one a file, a Keras class and its function."""

from tfdml.losses import addons
from tfdml.losses.angular import Angular, angular_loss
from tfdml.losses.arc_face import ArcFace, arc_face_loss
from tfdml.losses.barlow_twins import BarlowTwins, barlow_twins_loss
from tfdml.losses.binomial_deviance import BinomialDeviance, binomial_deviance_loss
from tfdml.losses.by_level import ByLevel, by_level_loss
from tfdml.losses.circle import Circle, circle_loss
from tfdml.losses.contextual_manifold import ContextualManifold, contextual_manifold_loss
from tfdml.losses.contrastive import Contrastive, contrastive_loss
from tfdml.losses.cos_face import CosFace, cos_face_loss
from tfdml.losses.divergence import Divergence, divergence_loss
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.fast_ap import FastAP, fast_ap_loss
from tfdml.losses.generalized_cross_entropy import GeneralizedCrossEntropy, generalized_cross_entropy_loss
from tfdml.losses.histogram import Histogram, histogram_loss
from tfdml.losses.intrinsic_manifold import IntrinsicManifold, intrinsic_manifold_loss
from tfdml.losses.lifted_structure import LiftedStructure, lifted_structure_loss
from tfdml.losses.manifold_n_pair import ManifoldNPair, manifold_n_pair_loss
from tfdml.losses.margin import Margin, margin_loss
from tfdml.losses.multi_similarity import MultiSimilarity, multi_similarity_loss
from tfdml.losses.n_pair import NPair, n_pair_loss
from tfdml.losses.nested import Nested, nested_loss
from tfdml.losses.norm_softmax import NormSoftmax, norm_softmax_loss
from tfdml.losses.nt_xent import NTXent, nt_xent_loss
from tfdml.losses.proxy_anchor import ProxyAnchor, proxy_anchor_loss
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.losses.proxy_n_pair import ProxyNPair, proxy_n_pair_loss
from tfdml.losses.proxy_nca import ProxyNCA, proxy_nca_loss
from tfdml.losses.ranked_list import RankedList, ranked_list_loss
from tfdml.losses.ranked_list_simpler import RankedListSimpler, ranked_list_simpler_loss
from tfdml.losses.simsiam import SimSiam, simsiam_loss
from tfdml.losses.smooth_ap import SmoothAP, smooth_ap_loss
from tfdml.losses.soft_triple import SoftTriple, soft_triple_loss
from tfdml.losses.sub_center_arc_face import SubCenterArcFace, sub_center_arc_face_loss
from tfdml.losses.sup_con import SupCon, sup_con_loss
from tfdml.losses.threshold_consistent_margin import ThresholdConsistentMargin, threshold_consistent_margin_loss
from tfdml.losses.triplet import Triplet, triplet_loss
from tfdml.losses.vicreg import VICReg, vicreg_loss
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
    "angular_loss",
    "arc_face_loss",
    "barlow_twins_loss",
    "binomial_deviance_loss",
    "by_level_loss",
    "circle_loss",
    "contextual_manifold_loss",
    "contrastive_loss",
    "cos_face_loss",
    "divergence_loss",
    "fast_ap_loss",
    "generalized_cross_entropy_loss",
    "histogram_loss",
    "intrinsic_manifold_loss",
    "lifted_structure_loss",
    "manifold_n_pair_loss",
    "margin_loss",
    "multi_similarity_loss",
    "n_pair_loss",
    "nested_loss",
    "norm_softmax_loss",
    "nt_xent_loss",
    "proxy_anchor_loss",
    "proxy_n_pair_loss",
    "proxy_nca_loss",
    "ranked_list_loss",
    "ranked_list_simpler_loss",
    "simsiam_loss",
    "smooth_ap_loss",
    "soft_triple_loss",
    "sub_center_arc_face_loss",
    "sup_con_loss",
    "threshold_consistent_margin_loss",
    "triplet_loss",
    "vicreg_loss",
]
