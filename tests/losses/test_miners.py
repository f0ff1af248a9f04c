"""Every miner against loops over pairs and triplets, in losses of triplets and of pairs."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import DISTANCES, assert_is_gradient
from tests.losses.loops import distance as euclidean
from tests.night import others_at_night
from tfdml import registry
from tfdml.losses import Contrastive, MultiSimilarity, Triplet
from tfdml.losses.miners import EasyHard, PairMargin

ROWS = 13
# Spec of a miner to the function of these tests that selects the same triplets.
MINERS = {}


def selects(*specs):
    def keep(function):
        MINERS.update(dict.fromkeys(specs, function))
        return function

    return keep


class Batch:
    """A batch with the distances of a loss, and each anchor's positives and negatives."""

    def __init__(self, rows, labels, distance):
        self.rows, size = rows, len(labels)
        self.distance = np.array([[DISTANCES[distance](x, y) for y in rows] for x in rows])
        pairs = list(itertools.permutations(range(size), 2))
        self.positives = [(i, j) for i, j in pairs if labels[i] == labels[j]]
        self.negatives = [(i, j) for i, j in pairs if labels[i] != labels[j]]

    def of(self, anchor):
        """The anchor's positives and negatives, from near to far."""
        return [
            sorted((j for i, j in pairs if i == anchor), key=lambda j: self.distance[anchor, j])
            for pairs in (self.positives, self.negatives)
        ]

    def triplets(self, chosen=lambda anchor, p, n: 1.0, positives=None, negatives=None):
        """Weights by triplet, of those with a weight, from functions of an anchor's positives and negatives."""
        found = {}
        for anchor in range(len(self.rows)):
            near, far = self.of(anchor)
            near, far = (near if positives is None else positives(near)), (far if negatives is None else negatives(far))
            found |= {(anchor, p, n): chosen(anchor, p, n) for p in near for n in far if chosen(anchor, p, n)}
        return found


@selects("all")
def every(batch):
    return batch.triplets()


@selects("hard")
def hard(batch):
    return batch.triplets(negatives=lambda far: far[:1])


@selects("batch_hard", "easy_hard(positives='hard', negatives='hard')")
def batch_hard(batch):
    return batch.triplets(positives=lambda near: near[-1:], negatives=lambda far: far[:1])


@selects("semi_hard")
def semi_hard(batch):
    def nearest_farther(anchor, p, n):
        far = batch.of(anchor)[1]
        return n == next((j for j in far if batch.distance[anchor, j] > batch.distance[anchor, p]), far[-1])

    return batch.triplets(nearest_farther)


@selects("easy_hard", "easy_hard(fallback=True)", "easy_hard(positives='hard')")
def easy_positive_semi_hard_negative(batch, fallback=False, place=0):
    found = {}
    for anchor in range(ROWS):
        near, far = batch.of(anchor)
        if not near:
            continue
        p = near[place]
        farther = [n for n in far if batch.distance[anchor, n] > batch.distance[anchor, p]] or far[-1:] * fallback
        found |= {(anchor, p, n): 1.0 for n in farther[:1]}
    return found


MINERS["easy_hard(fallback=True)"] = lambda batch: easy_positive_semi_hard_negative(batch, fallback=True)
MINERS["easy_hard(positives='hard')"] = lambda batch: easy_positive_semi_hard_negative(batch, place=-1)


@selects("easy_hard(positives='semi_hard', negatives='hard')")
def semi_hard_positive(batch, place=0):
    found = {}
    for anchor in range(ROWS):
        near, far = batch.of(anchor)
        nearer = [p for p in near if far and batch.distance[anchor, p] < batch.distance[anchor, far[place]]]
        found |= {(anchor, p, far[place]): 1.0 for p in nearer[-1:]}
    return found


MINERS["easy_hard(positives='semi_hard', negatives='easy')"] = lambda batch: semi_hard_positive(batch, place=-1)

ENDS = {"easy": (slice(0, 1), slice(-1, None)), "hard": (slice(-1, None), slice(0, 1)), "all": (slice(None),) * 2}
for one, other in itertools.product(ENDS, ENDS):
    MINERS[f"easy_hard(positives={one!r}, negatives={other!r})"] = lambda batch, one=one, other=other: batch.triplets(
        positives=lambda near: near[ENDS[one][0]], negatives=lambda far: far[ENDS[other][1]]
    )


@selects("triplet_margin")
def within_margin(batch, low=-math.inf, high=0.2):
    return batch.triplets(lambda a, p, n: low < batch.distance[a, n] - batch.distance[a, p] <= high)


MINERS["triplet_margin(kind='hard', margin=0.4)"] = lambda batch: within_margin(batch, high=0.0)
MINERS["triplet_margin(kind='semi_hard', margin=0.4)"] = lambda batch: within_margin(batch, low=0.0, high=0.4)
MINERS["triplet_margin(kind='easy', margin=0.1)"] = lambda batch: within_margin(batch, low=0.1, high=math.inf)


@selects("angular(angle=30)")
def at_large_angles(batch):
    def is_wide(a, p, n):
        rows = batch.rows
        side, to_center = euclidean(rows[a], rows[p]), euclidean(rows[n], (rows[a] + rows[p]) / 2)
        return math.degrees(math.atan(side / (2 * to_center))) > 30

    return batch.triplets(is_wide)


def joined(positives, negatives):
    """Weights of every positive with every negative of its anchor, from weights by pair."""
    return {
        (a, p, n): weight * other
        for (a, p), weight in positives.items()
        for (b, n), other in negatives.items()
        if a == b
    }


@selects("hdc(share=0.3)")
def hardest_share(batch):
    near = sorted(batch.positives, key=lambda pair: -batch.distance[pair])
    far = sorted(batch.negatives, key=lambda pair: batch.distance[pair])
    last = [pairs[math.ceil(0.3 * len(pairs)) - 1] for pairs in (near, far)]
    # Both orders of a pair are at the same distance, but for rounding.
    near = [pair for pair in near if batch.distance[pair] >= batch.distance[last[0]] - 1e-9]
    far = [pair for pair in far if batch.distance[pair] <= batch.distance[last[1]] + 1e-9]
    return joined(dict.fromkeys(near, 1.0), dict.fromkeys(far, 1.0))


@selects("pair_margin(positive_margin=0.5, negative_margin=1.2)")
def beyond_margins(batch):
    near = [pair for pair in batch.positives if batch.distance[pair] > 0.5]
    far = [pair for pair in batch.negatives if batch.distance[pair] < 1.2]
    return joined(dict.fromkeys(near, 1.0), dict.fromkeys(far, 1.0))


@selects("multi_similarity")
def competing(batch):
    near, far = {}, {}
    for a in range(ROWS):
        positives, negatives = batch.of(a)
        if positives and negatives:
            nearest, farthest = batch.distance[a, negatives[0]], batch.distance[a, positives[-1]]
            near |= {(a, p): 1.0 for p in positives if batch.distance[a, p] > nearest - 0.1}
            far |= {(a, n): 1.0 for n in negatives if batch.distance[a, n] < farthest + 0.1}
    return joined(near, far)


@selects("nearest(cutoff=0.3)")
def nearest_from(batch):
    near, far = dict.fromkeys(batch.positives, 1.0), {}
    for a in range(ROWS):
        positives, negatives = batch.of(a)
        negatives = [n for n in negatives if batch.distance[a, n] >= 0.3][: len(positives)]
        far |= {(a, n): 1.0 / len(positives) for n in negatives}
    return joined(near, far)


@selects("uniform_histogram(bins=4)")
def evenly(batch):
    def weights(pairs):
        distances = [batch.distance[pair] for pair in pairs]
        edges = np.linspace(min(distances), max(distances), 5)
        places = [min(max(np.searchsorted(edges, d, side="right") - 1, 0), 3) for d in distances]
        return {pair: 1.0 / places.count(place) for pair, place in zip(pairs, places, strict=True)}

    return joined(weights(batch.positives), weights(batch.negatives))


@selects("maximum_loss(loss='triplet(margin=2.0, mining=\"batch_hard\")', share=0.5)")
def of_worst_anchors(batch):
    squared = np.array([[euclidean(x, y) ** 2 for y in batch.rows] for x in batch.rows])
    values = []
    for a in range(ROWS):
        near, far = ([squared[a, j] for i, j in pairs if i == a] for pairs in (batch.positives, batch.negatives))
        values.append(max(0.0, max(near) - min(far) + 2.0) if near and far else 0.0)
    kept = sorted(range(ROWS), key=lambda a: -values[a])[: math.ceil(sum(value > 0 for value in values) / 2)]
    return {triplet: 1.0 for triplet in batch.triplets() if triplet[0] in kept}


def summed(batch, triplets, cost, swap, mean):
    """The value of a batch, triplet by triplet."""
    distance = batch.distance
    costs = {}
    for (a, p, n), weight in triplets.items():
        far = min(distance[a, n], distance[p, n]) if swap else distance[a, n]
        costs[a, p, n] = weight, cost(distance[a, p] - far)
    if mean == "anchors":
        values = []
        for anchor in range(ROWS):
            own = [each for (a, _, _), each in costs.items() if a == anchor]
            values.append(sum(w * c for w, c in own) / sum(w for w, _ in own) if own else 0.0)
        return sum(values) / ROWS
    total = sum(w * c for w, c in costs.values())
    if mean == "none":
        return total / ROWS
    return total / max(1.0, sum(w for w, c in costs.values() if c > 0 or mean == "pairs"))


@pytest.fixture(params=others_at_night(["uneven", "even"], ["uneven"]))
def labels_and_rows(make_batch, request):
    labels, rows = make_batch(ROWS, 4, 3, dtype="float64")
    if request.param == "uneven":
        labels[0] = 99
    return labels, rows


COSTS = {"hinge": lambda gap: max(0.0, gap + 0.3), "smooth": lambda gap: math.log1p(math.exp(gap + 0.3))}


@pytest.mark.slow
@pytest.mark.parametrize("spec", MINERS)
@pytest.mark.few_by_day(10)
def test_triplets_of_a_miner(labels_and_rows, spec):
    labels, rows = labels_and_rows
    cases = [
        ("hinge", False, "nonzero"),
        ("hinge", False, "anchors"),
        ("smooth", True, "pairs"),
        ("hinge", True, "none"),
    ]
    for form, swap, mean in cases:
        batch = Batch(rows, labels, "euclidean")
        expected = summed(batch, MINERS[spec](batch), COSTS[form], swap, mean)
        loss = Triplet(margin=0.3, mining=spec, distance="euclidean", form=form, swap=swap, mean=mean)
        assert float(np.mean(loss.call(labels, rows))) == pytest.approx(expected, rel=1e-9, abs=1e-12), (
            form,
            swap,
            mean,
        )


@pytest.mark.parametrize(
    "spec", [spec for spec in MINERS if spec.startswith(("semi_hard", "triplet_margin", "angular"))]
)
def test_a_pair_counts_in_each_triplet_that_has_it(labels_and_rows, spec):
    labels, rows = labels_and_rows
    batch = Batch(rows, labels, "euclidean")
    loss = Contrastive(margin=1.5, positive_margin=0.1, squared_positives=False, distance="euclidean", mining=spec)
    expected = sum(
        max(0.0, batch.distance[a, p] - 0.1) + max(0.0, 1.5 - batch.distance[a, n]) for a, p, n in MINERS[spec](batch)
    )
    assert expected > 0
    assert float(np.sum(loss.call(labels, rows))) == pytest.approx(expected, rel=1e-9)


def test_dynamic_margin_weights_triplets_by_their_rank(labels_and_rows):
    labels, rows = labels_and_rows
    batch = Batch(rows, labels, "euclidean")
    gaps = [batch.distance[a, p] - batch.distance[a, n] for a, p, n in every(batch)]
    counts = np.zeros(11)
    for gap in gaps:
        place = math.floor((gap + 2) / 0.4)
        counts[place] += 1 - ((gap + 2) / 0.4 - place)
        counts[place + 1] += (gap + 2) / 0.4 - place
    shares = np.cumsum(counts) / counts.sum()
    expected = np.mean([shares[math.floor((gap + 2) / 0.4)] * gap for gap in gaps])
    loss = Triplet(form="dynamic", mining="all", distance="euclidean", mean="pairs")
    assert float(np.mean(loss.call(labels, rows))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "swap, distance",
    others_at_night([(swap, distance) for swap in (False, True) for distance in DISTANCES], [(False, "euclidean")]),
)
def test_gradient_of_triplets_one_after_another(make_batch, distance, swap):
    labels, rows = make_batch(7, 2, 3, dtype="float64", normalised=False)
    loss = Triplet(margin=0.3, mining="triplet_margin(margin=9.0)", form="smooth", distance=distance, swap=swap)
    variable = tf.Variable(rows)
    with tf.GradientTape() as tape:
        values = loss.call(labels, variable)
    gradient = tape.gradient(values, variable).numpy()
    assert_is_gradient(gradient, lambda changed: loss.call(labels, changed).numpy(), rows, abs=1e-5)


def test_miners_may_be_objects():
    loss = Triplet(mining=EasyHard(positives="easy", negatives="hard"))
    assert loss.mining == "easy_hard(positives='easy', negatives='hard', fallback=False)"
    assert Triplet.from_config(loss.get_config()).miner == EasyHard("easy", "hard") != EasyHard()
    assert Contrastive(mining=PairMargin()).miner.positive_margin == 0.2


def test_arguments_of_a_loss_are_those_of_its_miner():
    assert Triplet(mining="distance_weighted", cutoff=0.7).miner.cutoff == 0.7
    assert MultiSimilarity(epsilon=0.3).miner.epsilon == 0.3
    with pytest.warns(UserWarning, match="cutoff=0.7 has no effect with mining='hard'"):
        Triplet(mining="hard", cutoff=0.7)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("triplet(mining='semihard')", "Unknown miner 'semihard'. Did you mean 'semi_hard'?"),
        ("triplet(mining='maximum_loss(loss=\"arc_face\")')", "a loss on pairs without variables, such as 'triplet'"),
        ("triplet(mining=3)", "mining to be a miner or its spec. Received: mining=3"),
        ("triplet(mining='easy_hard(positives=\"all\")')", "semi_hard needs 'easy' or 'hard' on the other side"),
        ("multi_similarity(mining='distance_weighted')", "a miner that selects pairs in MultiSimilarity"),
        ("triplet(distance='cosin')", "Unknown distance 'cosin'. Did you mean 'cosine'?"),
        ("triplet(distance='lp(p=0.5)')", "p to be a number of 1 or more. Received: p=0.5"),
        ("triplet(mean='batch')", "mean to be one of 'anchors', 'pairs', 'nonzero', 'none'. Received: mean='batch'"),
    ],
)
def test_bad_miners_are_told(spec, message):
    with pytest.raises(ValueError) as error:
        registry.create("loss", spec)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "spec", ["triplet(swap=True)", "triplet(mining='angular')", "contrastive(mining='maximum_loss')"]
)
def test_comparing_rows_that_are_no_anchors_refuses_memory(spec):
    assert registry.create("loss", spec).refuses_memory
