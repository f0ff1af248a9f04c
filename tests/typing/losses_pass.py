"""Lines that a type checker accepts: every loss and its function. They are read, not run."""

from typing import Any

from tfdml import losses
from tfdml.losses import addons

labels: Any = None
embeddings: Any = None

losses.Angular()
losses.Angular(alpha=45.0, reduction="sum")
losses.Angular(45.0)
losses.angular_loss(labels, embeddings)
losses.angular_loss(labels, embeddings, alpha=45.0)
losses.ArcFace(classes=100)
losses.ArcFace(
    scale=64.0,
    margin=0.5,
    monotonic=True,
    classes=None,
    sampled_classes=None,
    sampling="corrected",
    sharded=False,
    reduction="sum",
)
losses.ArcFace(64.0, 0.5, True)
losses.arc_face_loss(labels, embeddings)
losses.arc_face_loss(labels, embeddings, scale=64.0, margin=0.5, monotonic=True)
losses.BarlowTwins()
losses.BarlowTwins(weight=0.005, projector=(1024, 1024), reduction="sum")
losses.barlow_twins_loss(labels, embeddings, weight=0.005)
losses.BinomialDeviance()
losses.BinomialDeviance(alpha=2.0, beta=0.5, negative_cost=25.0, reduction="sum")
losses.BinomialDeviance(2.0, 0.5, 25.0)
losses.binomial_deviance_loss(labels, embeddings)
losses.binomial_deviance_loss(labels, embeddings, alpha=2.0, beta=0.5, negative_cost=25.0)
losses.Circle()
losses.Circle(margin=0.4, scale=80.0, differentiate_weights=False, reduction="sum")
losses.Circle(0.4, 80.0, False)
losses.circle_loss(labels, embeddings)
losses.circle_loss(labels, embeddings, margin=0.4, scale=80.0, differentiate_weights=False)
losses.ContextualManifold(classes=100)
losses.ContextualManifold(
    margin=0.0005,
    scale=1.0,
    restart=0.8,
    affinity="clipped",
    neighbors=None,
    proxies="learnt",
    proxy_steps=1000,
    proxy_rate=0.001,
    proxy_tolerance=0.001,
    classes=None,
    reduction="sum",
)
losses.ContextualManifold(0.0005, 1.0)
losses.contextual_manifold_loss(labels, embeddings)
losses.contextual_manifold_loss(labels, embeddings, margin=0.0005, scale=1.0)
losses.Contrastive()
losses.Contrastive(
    margin=1.0, positive_margin=0.0, squared_positives=True, squared_negatives=False, pairs="all", reduction="sum"
)
losses.Contrastive(1.0, 0.0, True, False, "all")
losses.contrastive_loss(labels, embeddings)
losses.contrastive_loss(
    labels, embeddings, margin=1.0, positive_margin=0.0, squared_positives=True, squared_negatives=False, pairs="all"
)
losses.CosFace(classes=100)
losses.CosFace(
    scale=64.0, margin=0.35, classes=None, sampled_classes=None, sampling="corrected", sharded=False, reduction="sum"
)
losses.CosFace(64.0, 0.35)
losses.cos_face_loss(labels, embeddings)
losses.cos_face_loss(labels, embeddings, scale=64.0, margin=0.35)
losses.FastAP()
losses.FastAP(bins=10, reduction="sum")
losses.FastAP(10)
losses.fast_ap_loss(labels, embeddings)
losses.fast_ap_loss(labels, embeddings, bins=10)
losses.Histogram()
losses.Histogram(bins=100, reduction="sum")
losses.Histogram(100)
losses.histogram_loss(labels, embeddings)
losses.histogram_loss(labels, embeddings, bins=100)
losses.IntrinsicManifold(classes=100)
losses.IntrinsicManifold(
    margin=0.0005,
    scale=1.0,
    restart=0.8,
    affinity="clipped",
    neighbors=None,
    proxies="learnt",
    proxy_steps=1000,
    proxy_rate=0.001,
    proxy_tolerance=0.001,
    classes=None,
    reduction="sum",
)
losses.IntrinsicManifold(0.0005, 1.0)
losses.intrinsic_manifold_loss(labels, embeddings)
losses.intrinsic_manifold_loss(labels, embeddings, margin=0.0005, scale=1.0)
losses.LiftedStructure()
losses.LiftedStructure(margin=1.0, form="smooth", normalize=False, reduction="sum")
losses.LiftedStructure(1.0, "smooth", False)
losses.lifted_structure_loss(labels, embeddings)
losses.lifted_structure_loss(labels, embeddings, margin=1.0, form="smooth", normalize=False)
losses.ManifoldNPair()
losses.ManifoldNPair(margin=0.0005, scale=1.0, restart=0.8, affinity="clipped", neighbors=None, reduction="sum")
losses.ManifoldNPair(0.0005, 1.0, 0.8, "clipped", None)
losses.manifold_n_pair_loss(labels, embeddings)
losses.manifold_n_pair_loss(
    labels, embeddings, margin=0.0005, scale=1.0, restart=0.8, affinity="clipped", neighbors=None
)
losses.Margin(classes=100)
losses.Margin(
    beta=1.2,
    margin=0.2,
    learn_beta="no",
    nu=0.0,
    cutoff=0.5,
    nonzero_loss_cutoff=1.4,
    mining="distance_weighted",
    classes=None,
    reduction="sum",
)
losses.Margin(1.2, 0.2, "no", 0.0, 0.5, 1.4, "distance_weighted")
losses.margin_loss(labels, embeddings)
losses.margin_loss(
    labels, embeddings, beta=1.2, margin=0.2, nu=0.0, cutoff=0.5, nonzero_loss_cutoff=1.4, mining="distance_weighted"
)
losses.MultiSimilarity()
losses.MultiSimilarity(alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, mining=True, reduction="sum")
losses.MultiSimilarity(2.0, 50.0, 0.5, 0.1, True)
losses.multi_similarity_loss(labels, embeddings)
losses.multi_similarity_loss(labels, embeddings, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, mining=True)
losses.NPair()
losses.NPair(margin=0.0, scale=1.0, negatives="all", normalize=False, regularization=0.0, reduction="sum")
losses.NPair(0.0, 1.0, "all", False, 0.0)
losses.n_pair_loss(labels, embeddings)
losses.n_pair_loss(labels, embeddings, margin=0.0, scale=1.0, negatives="all", normalize=False, regularization=0.0)
losses.ByLevel("triplet", weights=(0.3, 1.0))
losses.ByLevel(losses.Triplet(), reduction=None, name="levels")
losses.by_level_loss(labels, embeddings, loss="triplet", weights=None)
losses.GeneralizedCrossEntropy(q=0.5, classes=100)
losses.generalized_cross_entropy_loss(labels, embeddings, q=0.5)
losses.Nested("triplet", dims=(16, 32))
losses.Nested(losses.Triplet(margin=0.1), dims=[16, 32], reduction=None, name="nested")
losses.nested_loss(labels, embeddings, loss="triplet", dims=(16, 32))
losses.NormSoftmax(classes=100)
losses.NormSoftmax(
    temperature=0.05, classes=None, sampled_classes=None, sampling="corrected", sharded=False, reduction="sum"
)
losses.NormSoftmax(0.05)
losses.norm_softmax_loss(labels, embeddings)
losses.norm_softmax_loss(labels, embeddings, temperature=0.05)
losses.NTXent()
losses.NTXent(temperature=0.1, reduction="sum")
losses.NTXent(0.1)
losses.nt_xent_loss(labels, embeddings)
losses.nt_xent_loss(labels, embeddings, temperature=0.1)
losses.ProxyAnchor(classes=100)
losses.ProxyAnchor(scale=32.0, margin=0.1, classes=None, reduction="sum")
losses.ProxyAnchor(32.0, 0.1)
losses.proxy_anchor_loss(labels, embeddings)
losses.proxy_anchor_loss(labels, embeddings, scale=32.0, margin=0.1)
losses.ProxyNPair(classes=100)
losses.ProxyNPair(
    margin=0.0005,
    scale=1.0,
    proxies="learnt",
    proxy_steps=1000,
    proxy_rate=0.001,
    proxy_tolerance=0.001,
    classes=None,
    reduction="sum",
)
losses.ProxyNPair(0.0005, 1.0)
losses.proxy_n_pair_loss(labels, embeddings)
losses.proxy_n_pair_loss(labels, embeddings, margin=0.0005, scale=1.0)
losses.ProxyNCA(classes=100)
losses.ProxyNCA(
    scale=1.0,
    exclude_positive=True,
    classes=None,
    sampled_classes=None,
    sampling="corrected",
    sharded=False,
    reduction="sum",
)
losses.ProxyNCA(1.0, True)
losses.proxy_nca_loss(labels, embeddings)
losses.proxy_nca_loss(labels, embeddings, scale=1.0, exclude_positive=True)
losses.RankedList()
losses.RankedList(
    alpha=1.2,
    margin=0.4,
    positive_temperature=0.0,
    negative_temperature=10.0,
    balance=0.5,
    differentiate_weights=False,
    differentiate_gallery=False,
    final_negative_temperature=None,
    reduction="sum",
)
losses.RankedList(1.2, 0.4, 0.0, 10.0, 0.5, False, False)
losses.ranked_list_loss(labels, embeddings)
losses.ranked_list_loss(
    labels,
    embeddings,
    alpha=1.2,
    margin=0.4,
    positive_temperature=0.0,
    negative_temperature=10.0,
    balance=0.5,
    differentiate_weights=False,
    differentiate_gallery=False,
)
losses.RankedListSimpler()
losses.RankedListSimpler(
    margin=0.4,
    negative_temperature=10.0,
    differentiate_weights=False,
    differentiate_gallery=False,
    final_negative_temperature=None,
    reduction="sum",
)
losses.RankedListSimpler(0.4, 10.0, False, False)
losses.ranked_list_simpler_loss(labels, embeddings)
losses.ranked_list_simpler_loss(
    labels, embeddings, margin=0.4, negative_temperature=10.0, differentiate_weights=False, differentiate_gallery=False
)
losses.SimSiam()
losses.SimSiam(hidden=32, reduction="sum")
losses.simsiam_loss(labels, embeddings)
losses.SmoothAP()
losses.SmoothAP(temperature=0.01, include_query=False, reduction="sum")
losses.SmoothAP(0.01, False)
losses.smooth_ap_loss(labels, embeddings)
losses.smooth_ap_loss(labels, embeddings, temperature=0.01, include_query=False)
losses.SoftTriple(classes=100)
losses.SoftTriple(
    scale=20.0, center_temperature=0.1, margin=0.01, per_class=10, merging=0.2, classes=None, reduction="sum"
)
losses.SoftTriple(20.0, 0.1, 0.01)
losses.soft_triple_loss(labels, embeddings)
losses.soft_triple_loss(labels, embeddings, scale=20.0, center_temperature=0.1, margin=0.01)
losses.SubCenterArcFace(classes=100)
losses.SubCenterArcFace(
    scale=64.0,
    margin=0.5,
    monotonic=True,
    per_class=3,
    classes=None,
    sampled_classes=None,
    sampling="corrected",
    sharded=False,
    reduction="sum",
)
losses.SubCenterArcFace(64.0, 0.5, True)
losses.sub_center_arc_face_loss(labels, embeddings)
losses.sub_center_arc_face_loss(labels, embeddings, scale=64.0, margin=0.5, monotonic=True)
losses.SupCon()
losses.SupCon(temperature=0.1, form="out", reduction="sum")
losses.SupCon(0.1, "out")
losses.sup_con_loss(labels, embeddings)
losses.sup_con_loss(labels, embeddings, temperature=0.1, form="out")
losses.ThresholdConsistentMargin()
losses.ThresholdConsistentMargin(
    positive_margin=0.9, negative_margin=0.5, positive_weight=1.0, negative_weight=1.0, reduction="sum"
)
losses.ThresholdConsistentMargin(0.9, 0.5, 1.0, 1.0)
losses.threshold_consistent_margin_loss(labels, embeddings)
losses.threshold_consistent_margin_loss(
    labels, embeddings, positive_margin=0.9, negative_margin=0.5, positive_weight=1.0, negative_weight=1.0
)
losses.Triplet()
losses.Triplet(margin=0.2, mining="semi_hard", squared=True, cutoff=0.5, nonzero_loss_cutoff=1.4, reduction="sum")
losses.Triplet(0.2, "semi_hard", True, 0.5, 1.4)
losses.triplet_loss(labels, embeddings)
losses.triplet_loss(labels, embeddings, queries=8, margin=0.3)
losses.triplet_loss(
    labels, embeddings, margin=0.2, mining="semi_hard", squared=True, cutoff=0.5, nonzero_loss_cutoff=1.4
)
losses.Divergence()
losses.Divergence(margin=1.0, reduction="sum")
losses.Divergence(1.0)
addons.ContrastiveLoss()
addons.ContrastiveLoss(margin=1.0, reduction="sum")
addons.ContrastiveLoss(1.0)
addons.contrastive_loss(labels, embeddings)
addons.contrastive_loss(labels, embeddings, margin=1.0)
addons.LiftedStructLoss()
addons.LiftedStructLoss(margin=1.0, reduction="sum")
addons.LiftedStructLoss(1.0)
addons.lifted_struct_loss(labels, embeddings)
addons.lifted_struct_loss(labels, embeddings, margin=1.0)
addons.NpairsLoss()
addons.NpairsLoss(reduction="sum")
addons.npairs_loss(labels, embeddings)
addons.TripletHardLoss()
addons.TripletHardLoss(margin=1.0, soft=False, distance_metric="L2", reduction="sum")
addons.TripletHardLoss(1.0, False, "L2")
addons.triplet_hard_loss(labels, embeddings)
addons.triplet_hard_loss(labels, embeddings, margin=1.0, soft=False, distance_metric="L2")
addons.TripletSemiHardLoss()
addons.TripletSemiHardLoss(margin=1.0, distance_metric="L2", reduction="sum")
addons.TripletSemiHardLoss(1.0, "L2")
addons.triplet_semihard_loss(labels, embeddings)
addons.triplet_semihard_loss(labels, embeddings, margin=1.0, distance_metric="L2")
losses.Triplet(0.2, "hard", name="own", dtype="float64")
losses.ProxyAnchor(32.0, classes=100)
losses.divergence_loss(embeddings, margin=1.0)
losses.margin_loss(labels, embeddings, beta=embeddings)
losses.margin_loss(labels, embeddings, 8, margin=0.1)
addons.TripletHardLoss(distance_metric=lambda rows: rows)
losses.VICReg()
losses.VICReg(25.0, 25.0, 1.0, target=1.0, projector=())
losses.vicreg_loss(labels, embeddings, invariance=25.0, variance=25.0, covariance=1.0)
losses.WeightedSum([(1.0, losses.Triplet()), (0.5, losses.ProxyAnchor(classes=100))])
losses.WeightedSum([(1.0, losses.Triplet())], name="sum")
