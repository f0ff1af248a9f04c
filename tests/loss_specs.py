"""The specs of losses that tests of every loss run on."""

from functools import cache

from tfdml import registry
from tfdml.layers import Proxies
from tfdml.losses import Regularizer

# Losses with several ways to compute, or that need an argument; every other one is tested as its name gives it.
LOSS_SPECS = {
    "angular": ["angular", "angular(alpha=55.0)"],
    "anti_collapse": [
        "anti_collapse",
        "anti_collapse(epsilon=0.1)",
        "proxy_nca(classes=7) + 0.1*anti_collapse(of='proxies')",
    ],
    "arc_face": ["arc_face(classes=7)", "arc_face(classes=7, scale=4.0, margin=1.0, monotonic=False)"],
    "barlow_twins": ["barlow_twins(projector=(8, 4))"],
    "binomial_deviance": ["binomial_deviance", "binomial_deviance(alpha=1.0, beta=0.25, negative_cost=3.0)"],
    "center_invariance": ["norm_softmax(classes=7) + 0.5*center_invariance"],
    "circle": ["circle", "circle(margin=0.25, scale=20.0, differentiate_weights=True)"],
    "contextual_manifold": ["contextual_manifold(classes=7)"],
    "contrastive": [
        "contrastive",
        "contrastive(margin=2.5)",
        "contrastive(positive_margin=0.4, squared_positives=False, squared_negatives=True)",
        "contrastive(distance='signal_to_noise', mining='uniform_histogram(bins=5)', mean='pairs')",
        "contrastive(distance='lp(p=1.5)', mining='triplet_margin', mean='nonzero')",
    ],
    "cos_face": ["cos_face(classes=7)"],
    "decorrelation": ["decorrelation", "proxy_nca(classes=7) + decorrelation(of='proxies')"],
    "fast_ap": ["fast_ap", "fast_ap(bins=23)"],
    "generalized_cross_entropy": [
        "generalized_cross_entropy(classes=7)",
        "generalized_cross_entropy(classes=7, q=0.25)",
    ],
    "histogram": ["histogram", "histogram(bins=7)"],
    # Its rows are pairs of an image and a text, see `tests.losses.test_image_text`.
    "image_text": [],
    "hyperbolic_nt_xent": ["hyperbolic_nt_xent", "hyperbolic_nt_xent(curvature=1.0, clip=0.8)"],
    "intrinsic_manifold": [
        "intrinsic_manifold(classes=7)",
        "intrinsic_manifold(classes=7, restart=0.5, affinity='shifted')",
    ],
    "large_margin_softmax": ["large_margin_softmax(classes=7)", "large_margin_softmax(classes=7, margin=2, scale=5.0)"],
    "lifted_structure": [
        "lifted_structure",
        "lifted_structure(form='hard', normalize=True)",
        "lifted_structure(form='generalized', mining='hdc')",
    ],
    "lp_norm": ["proxy_nca(classes=7) + lp_norm(of='proxies')", "lp_norm", "lp_norm(p=3.0, power=2.0)"],
    "manifold_n_pair": ["manifold_n_pair", "manifold_n_pair(margin=0.2, restart=0.5, affinity='shifted')"],
    "margin": [
        "margin",
        "margin(mining='all')",
        "margin(mining='nearest')",
        "margin(learn_beta='one', mining='all')",
        "margin(learn_beta='per_class', nu=0.5, classes=7)",
    ],
    "multi_similarity": ["multi_similarity", "multi_similarity(beta=40.0, base=0.5, mining='all')"],
    "n_pair": ["n_pair", "n_pair(margin=0.5, normalize=True, regularization=0.02)"],
    "nested": [
        "nested(loss='triplet(mining=\"batch_hard\")', dims=(2, 4))",
        "nested(loss='multi_similarity', dims=(1, 2, 4))",
    ],
    "norm_softmax": ["norm_softmax(classes=7)"],
    "nt_xent": ["nt_xent", "nt_xent(temperature=0.5)"],
    "nca": ["nca", "nca(scale=8.0, distance='cosine', mean='nonzero')"],
    "p2s_grad": ["p2s_grad(classes=7)"],
    "pnp": ["pnp(temperature=0.2)", *(f"pnp(temperature=0.2, form='{form}')" for form in ("Ds", "Dq", "Iu", "Ib"))],
    "potential_field": [
        "potential_field(classes=7, per_class=2, delta=0.5)",
        "potential_field(classes=7, alpha=1.0, delta=1.0)",
    ],
    "proxy_anchor": ["proxy_anchor(classes=7)", "proxy_anchor(classes=7, scale=4.0)"],
    "proxy_n_pair": ["proxy_n_pair(classes=7)"],
    "proxy_nca": ["proxy_nca(classes=7)", "proxy_nca(classes=7, scale=4.0, exclude_positive=False)"],
    "ranked_list": [
        "ranked_list",
        "ranked_list(alpha=1.5, positive_temperature=-5.0, differentiate_weights=True, differentiate_gallery=True)",
    ],
    "ranked_list_simpler": [
        "ranked_list_simpler",
        "ranked_list_simpler(margin=0.8, differentiate_weights=True, differentiate_gallery=True)",
    ],
    "recall_at_k": ["recall_at_k(temperature=0.1)", "recall_at_k(ks=(2, 3), temperature=0.2, include_query=True)"],
    "regular_face": ["regular_face(of='embeddings')", "soft_triple(classes=7, per_class=2) + 0.5*regular_face"],
    "smooth_ap": ["smooth_ap", "smooth_ap(temperature=0.2, include_query=True)"],
    "soft_triple": ["soft_triple(classes=7)", "soft_triple(classes=7, per_class=1)"],
    "sphere_face": ["sphere_face(classes=7)"],
    "sparse_centers": ["sub_center_arc_face(classes=7) + 0.2*sparse_centers"],
    "sub_center_arc_face": ["sub_center_arc_face(classes=7)", "sub_center_arc_face(classes=7, per_class=1, scale=4.0)"],
    "sup_con": ["sup_con", "sup_con(form='in', temperature=0.5)"],
    "triplet": [
        f"triplet(mining={mining!r})" for mining in ("all", "semi_hard", "hard", "batch_hard", "distance_weighted")
    ]
    + [
        "triplet(mining='hard', distance='euclidean')",
        "triplet(mining='all', swap=True, form='smooth', mean='pairs')",
        "triplet(mining='angular(angle=30)', distance='euclidean', mean='nonzero')",
        "triplet(mining='easy_hard', distance='cosine', form='smooth')",
        "triplet(mining='triplet_margin', form='smooth', mean='none')",
        "triplet(mining='maximum_loss', distance='dot')",
    ],
    # Their rows are embeddings and reference vectors side by side, see `tests.losses.test_teacher`.
    "teacher": [],
    "toward_initial": [],
    "tuplet_margin": ["tuplet_margin", "tuplet_margin(scale=8.0, mining='multi_similarity', mean='pairs')"],
    "uniformity": ["uniformity", "uniformity(t=0.5)", "proxy_nca(classes=7) + uniformity(of='proxies')"],
    "vicreg": ["vicreg(projector=(8, 4))"],
    "zero_mean": ["zero_mean", "proxy_nca(classes=7) + zero_mean(of='proxies')"],
}
# Sums have no name of their own: one of losses on embeddings, one with a layer, one of layers of all kinds.
SUM_SPECS = [
    "triplet(mining='batch_hard') + 0.5*contrastive",
    "triplet(mining='batch_hard') + 0.5*proxy_anchor(classes=7)",
    "0.5*margin(learn_beta='per_class', classes=7, mining='all') + 2*soft_triple(classes=7, per_class=2)"
    " + proxy_nca(classes=7)",
    "triplet(mining='batch_hard') + 0.5*simsiam(hidden=3)",
]


@cache
def specs_by_fixture():
    """Fixture to the specs that a test which takes it runs on."""
    by_name = {name: LOSS_SPECS.get(name, [name]) for name in registry.names("loss")}
    by_name["weighted sum"] = SUM_SPECS
    specs = [spec for several in by_name.values() for spec in several]
    losses = {spec: registry.create("loss", spec) for spec in specs}
    return {
        "loss_spec": specs,
        "one_spec_a_loss": [several[0] for several in by_name.values() if several] + SUM_SPECS[1:],
        "pair_loss_spec": [
            spec for spec, loss in losses.items() if loss.make_layer() is None and not isinstance(loss, Regularizer)
        ],
        "regularizer_spec": [spec for spec in specs if isinstance(losses[spec], Regularizer)],
        "proxy_loss_spec": [spec for spec, loss in losses.items() if isinstance(loss.make_layer(), Proxies)],
    }
