"""Every loss is equal to the loop of `tests.losses.loops`, and what it is at the limits; see also `test_loss_contract`.

The losses with learned boundaries, of views, and along the manifold have loops in files of their own.
"""

import math

import numpy as np
import pytest

from tests.losses import loops
from tests.losses.loops import value_and_gradient
from tests.of_batches import of_batches
from tfdml import losses

# A loss, its loop, and the arguments that both have.
GENERALIZED = {"form": "generalized", "mean": "anchors"}
OF_PAIRS = [
    (losses.Angular, loops.angular, [{"alpha": alpha} for alpha in (5.0, 36, 45.0, 60.0)]),
    (losses.BinomialDeviance, loops.binomial_deviance, [{}, {"alpha": 0.5}, {"beta": -0.3}, {"negative_cost": 3.0}]),
    (
        losses.Circle,
        loops.circle,
        [{}, {"margin": 0.25, "scale": 64.0}, {"margin": -0.2, "scale": 1.0}, {"margin": 0.0, "scale": 10.0}],
    ),
    (losses.Contrastive, loops.contrastive, [{"margin": margin} for margin in (0.0, 1.0, 4.0)]),
    *(
        (
            losses.Contrastive,
            loops.contrastive,
            [
                {"margin": margin, "positive_margin": near, "squared_positives": one, "squared_negatives": other}
                for one in (True, False)
                for other in (True, False)
            ],
        )
        for margin, near in [(1.0, 0.0), (1.4, 0.7), (0.0, 3.0)]
    ),
    (losses.FastAP, loops.fast_ap, [{"bins": bins} for bins in (1, 4, 10, 33)]),
    (
        losses.HyperbolicNTXent,
        loops.hyperbolic_nt_xent,
        [{}, {"temperature": 1.0}, {"curvature": 1.0}, {"clip": 0.7}, {"curvature": 2.0, "clip": 1.5}],
    ),
    (
        losses.LiftedStructure,
        loops.lifted_structure,
        [
            {"margin": margin, "form": form, "normalize": normalize}
            for margin in (0.0, 1.0, 3.0)
            for form in ("smooth", "hard")
            for normalize in (True, False)
        ],
    ),
    (
        losses.MultiSimilarity,
        loops.multi_similarity,
        [
            {**arguments, "mining": mining}
            for mining in ("multi_similarity", "all")
            for arguments in (
                {},
                {"alpha": 5.0},
                {"beta": 40.0, "base": 1.0},
                {"epsilon": 0.5},
                {"epsilon": -0.2},
                {"epsilon": 5.0},
            )
        ],
    ),
    (
        losses.NPair,
        loops.n_pair,
        [
            {**arguments, "negatives": negatives}
            for negatives in ("all", "one_per_class", "first_pair_per_class")
            for arguments in (
                {},
                {"margin": 0.7, "scale": 3.0},
                {"normalize": True},
                {"regularization": 0.3},
                {"normalize": True, "regularization": 0.3},
            )
        ],
    ),
    (losses.NTXent, loops.nt_xent, [{"temperature": temperature} for temperature in (0.05, 0.1, 2.0)]),
    (
        losses.NCA,
        loops.nca,
        [{}, {"scale": 9.0}, {"scale": 0.5, "distance": "cosine"}, {"distance": "lp"}],
    ),
    (losses.LiftedStructure, loops.generalized_lifted_structure, [GENERALIZED, {**GENERALIZED, "margin": 3.0}]),
    (
        losses.PNP,
        loops.pnp,
        [
            *({"temperature": 0.3, "include_query": query} for query in (True, False)),
            *({"form": form} for form in ("Ds", "Iu")),
            {"form": "Dq", "alpha": 1.5},
            {"form": "Ib", "b": 3.0},
        ],
    ),
    (losses.TupletMargin, loops.tuplet_margin, [{}, {"margin": 0.0, "scale": 3.0}, {"margin": 0.7, "scale": 10.0}]),
    (losses.RankedList, loops.ranked_list, loops.RANKED_LISTS),
    (
        losses.RankedListSimpler,
        loops.ranked_list_simpler,
        [{}, {"margin": 0.0}, {"margin": 2.0}, {"negative_temperature": 1.5}],
    ),
    (
        losses.RecallAtK,
        loops.recall_at_k,
        [
            {},
            {"temperature": 0.5},
            {"temperature": 0.2, "rank_temperature": 0.3, "ks": (1, 3)},
            {"temperature": 0.1, "include_query": True},
        ],
    ),
    (
        losses.SmoothAP,
        loops.smooth_ap,
        [{"temperature": one, "include_query": other} for one in (0.01, 0.5) for other in (True, False)],
    ),
    (
        losses.SupCon,
        loops.sup_con,
        [{"temperature": one, "form": other} for one in (0.02, 0.1, 2.0) for other in ("out", "in")],
    ),
    *(
        (
            losses.Triplet,
            loops.triplet,
            [{"margin": margin, "mining": mining, "distance": distance} for margin in (0.0, 0.2, 3.0)],
        )
        for mining in ("all", "semi_hard", "hard", "batch_hard")
        for distance in loops.DISTANCES
    ),
]
# Loops that return the mean over the batch.
OF_BATCHES = [
    (
        losses.IntraPairVariance,
        loops.intra_pair_variance,
        [{}, {"positive_tolerance": 0.3, "negative_tolerance": 0.0}],
    ),
    (losses.Histogram, loops.histogram, [{"bins": bins} for bins in (1, 7, 100)]),
    (
        losses.ThresholdConsistentMargin,
        loops.threshold_consistent_margin,
        [{}, {"positive_margin": 0.2, "negative_margin": -0.3}, {"positive_weight": 0.3, "negative_weight": 2.0}],
    ),
]
OF_PROXIES = [
    (losses.P2SGrad, loops.p2s_grad, [{}]),
    (
        losses.ArcFace,
        loops.arc_face,
        [
            {**arguments, "monotonic": monotonic}
            for monotonic in (True, False)
            for arguments in ({}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 2.0})
        ],
    ),
    (losses.CosFace, loops.cos_face, [{}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 0.8}]),
    (losses.GeneralizedCrossEntropy, loops.generalized_cross_entropy, [{"q": q} for q in (0.1, 0.7, 1.0)]),
    (losses.NormSoftmax, loops.norm_softmax, [{"temperature": temperature} for temperature in (0.05, 0.3, 2.0)]),
    (
        losses.ProxyNPair,
        loops.proxy_n_pair,
        [{"margin": margin, "scale": scale} for margin in (5e-4, 0.0, 1.5) for scale in (1.0, 20.0)],
    ),
    (
        losses.ProxyNCA,
        loops.proxy_nca,
        [{"scale": scale, "exclude_positive": exclude} for scale in (1.0, 0.25, 8.0) for exclude in (True, False)],
    ),
    (losses.ProxyAnchor, loops.proxy_anchor, [{}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 0.5}]),
]
OF_CENTERS = [
    (
        losses.SoftTriple,
        loops.soft_triple,
        [{}, {"scale": 2.0}, {"center_temperature": 1.0}, {"margin": 0.5, "center_temperature": 0.02}],
    ),
    (
        losses.SubCenterArcFace,
        loops.sub_center_arc_face,
        [{}, {"scale": 2.0, "monotonic": False}, {"scale": 10.0, "margin": 2.0}],
    ),
]


WITH_LENGTHS = [
    (make, loops.large_margin_softmax, [{}, {"margin": 1}, {"margin": 3, "scale": 2.0}])
    for make in (losses.LargeMarginSoftmax, losses.SphereFace)
]


def of_losses(table):
    cases = [(make, loop, arguments) for make, loop, several in table for arguments in several]
    ids = [f"{make.__name__}{arguments}" for make, _, arguments in cases]
    return pytest.mark.parametrize("make, loop, arguments", cases, ids=ids)


def check(make, loop, arguments, labels, taken, tolerance):
    values = make(**arguments).call(labels, taken)
    assert values.dtype == taken.dtype and values.shape == labels.shape
    expected = loop(labels, taken, **arguments)
    values = np.mean(values) if np.ndim(expected) == 0 else values
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@of_losses([*OF_PAIRS, *OF_BATCHES])
@of_batches("size, classes, dim", [(13, 5, 8), (7, 2, 3), (2, 2, 2), (20, 3, 2), (6, 1, 4), (9, 99, 3)], by_day=1)
@pytest.mark.few_by_day(94)
def test_on_pairs(make_batch, size, classes, dim, dtype, tolerance, make, loop, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        check(make, loop, arguments, labels, embeddings, tolerance)


@of_losses(OF_PROXIES)
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5), (4, 1)])
@pytest.mark.few_by_day(88)
def test_on_proxies(make_similarities, size, classes, dtype, tolerance, make, loop, arguments):
    check(make, loop, arguments, *make_similarities(size, classes, dtype=dtype), tolerance)


@of_losses(OF_CENTERS)
@of_batches("size, classes, centers", [(1, 2, 2), (7, 3, 10), (13, 20, 3), (30, 5, 1)])
def test_on_centers(make_similarities, size, classes, centers, dtype, tolerance, make, loop, arguments):
    labels, similarities = make_similarities(size, classes, centers, dtype=dtype)
    check(make, loop, arguments, labels, similarities, tolerance)
    if centers == 1:
        values = [make(**arguments).call(labels, taken) for taken in (similarities, similarities[..., 0])]
        np.testing.assert_allclose(*values, rtol=tolerance)


@of_losses(WITH_LENGTHS)
@of_batches("size, classes", [(7, 3), (13, 20), (30, 5)])
def test_on_cosines_with_lengths(make_similarities, size, classes, dtype, tolerance, make, loop, arguments):
    labels, cosines = make_similarities(size, classes, dtype=dtype)
    lengths = np.random.default_rng(size).uniform(0.5, 3.0, cosines.shape).astype(dtype)
    check(make, loop, arguments, labels, np.stack([cosines * lengths, lengths], axis=2), tolerance)


# Of losses that no golden has. In most of these the labels of the first two rows are equal, and the others different.
@pytest.mark.parametrize(
    "loss, labels, taken, expected",
    [
        # On a line: 0.7 too far from 0.8; 0.2 and 0.7 too near for 1.2.
        (
            losses.RankedListSimpler(negative_temperature=0.0),
            [0, 0, 1],
            [[0.0], [1.5], [1.0]],
            [(0.7 + 0.2) / 2, (0.7 + 0.7) / 2, (0.2 + 0.7) / 2 / 2],
        ),
        # Cosines: 0.6 within the class; 0.8 and 0 between classes. One pair of each kind costs something.
        (
            losses.ThresholdConsistentMargin(),
            [5, 5, 9],
            [[1.0, 0], [0.6, 0.8], [0, 1]],
            [3 * 0.3 / 2, 3 * 0.3, 3 * 0.3 / 2],
        ),
        # Squared distances 1, 9 and 4.
        (losses.Triplet(margin=6.0, mining="hard"), [5, 5, 9], [[0.0], [1.0], [3.0]], [0.0, 1 - 4 + 6, 0.0]),
        *(
            (make(margin=0.3), [1, 0], [[0.2, 0.5], [0.9, 0.9]], [math.log(2), math.log(1 + math.exp(0.3))])
            for make in (losses.ProxyNPair, losses.IntrinsicManifold, losses.ContextualManifold)
        ),
        # At its own proxy, at a right angle to the second, opposite to the third: squared distances 0, 2 and 4.
        (losses.ProxyNCA(), [0], [[1.0, 0.0, -1.0]], [math.log(math.exp(-2) + math.exp(-4))]),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, losses.EmbeddingLoss) else "",
)
def test_by_hand(loss, labels, taken, expected):
    np.testing.assert_allclose(loss.call(labels, np.array(taken)), expected, atol=1e-12, rtol=1e-6)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
@pytest.mark.parametrize(
    "loss",
    [
        losses.Angular(),
        losses.Circle(),
        losses.NCA(),
        *(losses.PNP(form=form) for form in ("O", "Ds", "Dq", "Iu", "Ib")),
        losses.TupletMargin(),
        losses.LiftedStructure(form="generalized", margin=10.0),
        *(losses.Triplet(margin=10.0, swap=True, mean=mean) for mean in ("anchors", "pairs", "nonzero", "none")),
        *(losses.Triplet(margin=10.0, mining=mining) for mining in ("hdc", "angular", "uniform_histogram", "nearest")),
        losses.FastAP(),
        losses.Histogram(),
        losses.HyperbolicNTXent(),
        *(losses.LiftedStructure(margin=10.0, form=form) for form in ("smooth", "hard")),
        *(losses.MultiSimilarity(epsilon=epsilon) for epsilon in (0.1, 10.0)),
        *(
            losses.NPair(negatives=negatives, margin=10.0, regularization=1.0)
            for negatives in ("all", "one_per_class", "first_pair_per_class")
        ),
        losses.NTXent(),
        *(make(include_query=include) for make in (losses.RecallAtK, losses.SmoothAP) for include in (True, False)),
        *(
            losses.Triplet(margin=10.0, mining=mining)
            for mining in ("all", "semi_hard", "hard", "batch_hard", "distance_weighted")
        ),
    ],
    ids=lambda loss: type(loss).__name__,
)
@pytest.mark.few_by_day(38)
def test_without_both_kinds_of_pairs_it_is_zero_with_zero_gradient(make_batch, loss, labels):
    values, gradient = value_and_gradient(loss, labels, make_batch(4)[1])
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(gradient, np.zeros((4, 5)))


@pytest.mark.parametrize(
    "loss",
    [
        losses.ArcFace(),
        losses.CosFace(),
        losses.GeneralizedCrossEntropy(),
        losses.NormSoftmax(),
        losses.ProxyNPair(),
        *(losses.ProxyNCA(exclude_positive=exclude_positive) for exclude_positive in (True, False)),
        losses.SoftTriple(),
        losses.SubCenterArcFace(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_with_one_class_proxies_cost_nothing(loss):
    values, gradient = value_and_gradient(loss, [0, 0], np.float32([[0.5], [-1.0]]))
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(gradient, np.zeros((2, 1)))


@pytest.mark.parametrize(
    "loss, least",
    [
        (losses.BinomialDeviance(negative_cost=1e6), 1e3),
        (losses.Circle(scale=1e5), 1e4),
        (losses.MultiSimilarity(alpha=1e4, beta=1e4, base=0.0), 0.5),
        (losses.NTXent(temperature=1e-4), 1e3),
        *((losses.SupCon(temperature=1e-4, form=form), 1e3) for form in ("out", "in")),
        (losses.NormSoftmax(temperature=1e-4), 1e3),
        (losses.ProxyAnchor(scale=1e4), 1e3),
        (losses.ProxyNCA(scale=1e4), 1e3),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, losses.EmbeddingLoss) else "",
)
def test_large_exponents_do_not_overflow(make_batch, make_similarities, loss, least):
    labels, taken = (make_similarities if isinstance(loss, losses.ProxyLoss) else make_batch)()
    values, gradient = value_and_gradient(loss, labels, taken)
    assert np.all(np.isfinite(values)) and values.max() > least and np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    "make, arguments, message",
    [
        (losses.Triplet, {"nonzero_loss_cutoff": 0.1}, "above the cutoff of 0.5. Received: nonzero_loss_cutoff=0.1"),
        (losses.Margin, {"nonzero_loss_cutoff": 0.1}, "above the cutoff"),
        (losses.Angular, {"alpha": 61}, "in degrees above 0 and at most 60. Received: alpha=61"),
        (losses.RankedList, {"margin": 1.3}, "margin must be from 0 to alpha, which is 1.2. Received: margin=1.3"),
        (losses.RankedList, {"balance": 1.1}, "balance to be a number from 0 to 1. Received: balance=1.1"),
        (losses.RankedListSimpler, {"margin": 2.1}, "margin to be a number from 0 to 2. Received: margin=2.1"),
        (losses.ArcFace, {"margin": 28.6}, "an angle in radians of 0 or more and below 3.142. Received: margin=28.6"),
        (losses.GeneralizedCrossEntropy, {"q": 0.0}, "q to be a number above 0 and at most 1. Received: q=0.0"),
        (losses.GeneralizedCrossEntropy, {"q": 1.5}, "q to be a number above 0 and at most 1. Received: q=1.5"),
        (losses.Margin, {"cutoff": 0}, "cutoff to be a number above 0 and below 2. Received: cutoff=0"),
        *(
            (make, {"restart": 1.5}, "restart to be a number above 0 and below 1. Received: restart=1.5")
            for make in (losses.IntrinsicManifold, losses.ContextualManifold, losses.ManifoldNPair)
        ),
        *(
            (make, {argument: 0}, f"{argument} to be a number above 0. Received: {argument}=0")
            for make, arguments in (
                (losses.ArcFace, ["scale"]),
                (losses.BinomialDeviance, ["alpha", "negative_cost"]),
                (losses.Circle, ["scale"]),
                (losses.CosFace, ["scale"]),
                (losses.HyperbolicNTXent, ["temperature", "curvature", "clip"]),
                (losses.MultiSimilarity, ["alpha", "beta"]),
                (losses.NormSoftmax, ["temperature"]),
                (losses.PotentialField, ["alpha"]),
                (losses.ProxyAnchor, ["scale"]),
                (losses.ProxyNCA, ["scale"]),
                (losses.RecallAtK, ["temperature", "rank_temperature"]),
                (losses.SoftTriple, ["scale", "center_temperature"]),
                (losses.SupCon, ["temperature"]),
            )
            for argument in arguments
        ),
    ],
)
def test_bad_arguments_are_told(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)
