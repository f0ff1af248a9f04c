"""The losses as their papers print them, in loops over rows in float64, and gradients by differences.

Each loop takes `(labels, embeddings, **arguments)`, or similarities in place of embeddings, with the arguments and the
defaults of its loss. It returns the values `[B]`, and that of a few losses of the whole batch a single number.
"""

import math

import numpy as np
import pytest
import tensorflow as tf


def value_and_gradient(loss, labels, rows):
    """The values of a loss, and the gradient of their sum for the rows, as arrays."""
    variable = tf.Variable(rows)
    with tf.GradientTape() as tape:
        values = loss.call(tf.constant(labels), variable)
    return values.numpy(), tf.convert_to_tensor(tape.gradient(values, variable)).numpy()


def assert_is_gradient(gradient, function, rows, **near):
    """The gradient `[B, d]` is that of differences of the function's sum, entry by entry."""
    for place in np.ndindex(rows.shape):
        step = np.zeros_like(rows)
        step[place] = 1e-6
        high, low = (np.sum(function(rows + sign * step)) for sign in (1, -1))
        assert gradient[place] == pytest.approx((high - low) / 2e-6, **(near or {"abs": 1e-6}))


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def cosine(x, y):
    return dot(x, y) / math.sqrt(dot(x, x) * dot(y, y))


def distance(x, y):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


DISTANCES = {
    "euclidean": distance,
    "squared_euclidean": lambda x, y: distance(x, y) ** 2,
    "cosine": lambda x, y: 1 - cosine(x, y),
    "dot": lambda x, y: -dot(x, y),
    "lp": lambda x, y: sum(abs(a - b) for a, b in zip(x, y, strict=True)),
    "lp(p=3, power=True)": lambda x, y: sum(abs(a - b) ** 3 for a, b in zip(x, y, strict=True)),
    "signal_to_noise": lambda x, y: np.var(np.subtract(x, y)) / np.var(x),
}


def anchors(labels, embeddings):
    """Yields `(row, rows of positives, rows of negatives)` of each anchor, in float64."""
    rows = np.asarray(embeddings, np.float64)
    for i, label in enumerate(labels):
        positives = [row for j, row in enumerate(rows) if j != i and labels[j] == label]
        yield rows[i], positives, [row for j, row in enumerate(rows) if labels[j] != label]


def nca(labels, embeddings, scale=1.0, distance="squared_euclidean"):
    """`-log` of the probability to draw a row of the own class, as NCA defines it; 0 without a negative."""
    values = []
    for a, *kinds in anchors(labels, embeddings):
        near, far = ([math.exp(-scale * DISTANCES[distance](a, x)) for x in rows] for rows in kinds)
        values.append(-math.log(sum(near) / sum(near + far)) if near and far else 0.0)
    return values


def tuplet_margin(labels, embeddings, margin=0.1, scale=64.0):
    """By the angles themselves."""
    values = []
    for a, positives, negatives in anchors(labels, embeddings):
        angles = [math.acos(min(cosine(a, p), 1.0)) - margin for p in positives]
        sums = [sum(math.exp(scale * (cosine(a, n) - math.cos(angle))) for n in negatives) for angle in angles]
        values.append(mean([math.log(1 + each) for each in sums]))
    return values


def intra_pair_variance(labels, embeddings, positive_tolerance=0.01, negative_tolerance=0.01):
    """The value of the batch."""
    near, far = [], []
    for a, positives, negatives in anchors(labels, embeddings):
        near, far = near + [cosine(a, p) for p in positives], far + [cosine(a, n) for n in negatives]
    pulls = [max(0.0, (1 - positive_tolerance) * mean(near) - s) ** 2 for s in near]
    return mean(pulls) + mean([max(0.0, s - (1 + negative_tolerance) * mean(far)) ** 2 for s in far])


PNP = {
    "O": lambda w: w,
    "Ds": lambda w: math.log(1 + w),
    "Dq": lambda w: 1 - (1 + w) ** -1.5,
    "Iu": lambda w: (1 + w) * math.log(1 + w),
    "Ib": lambda w: (3 * w - math.log(1 + 3 * w)) / 9,
}


def pnp(labels, embeddings, temperature=0.01, include_query=False, form="O", **_):
    """The mean over positives of a function of the number of negatives before it, a sum of sigmoids."""
    values = []
    for query, positives, negatives in anchors(labels, embeddings):
        own, far = [cosine(query, x) for x in positives], [cosine(query, x) for x in negatives]
        own = [1.0, *own] if include_query and own else own
        before = [sum(0.5 * (1 + math.tanh((n - p) / temperature / 2)) for n in far) for p in own]
        values.append(mean([PNP[form](w) for w in before]))
    return values


def generalized_lifted_structure(labels, embeddings, margin=1.0, **_):
    """As Hermans et al. print it; 0 without a positive or a negative."""
    values = []
    for a, positives, negatives in anchors(labels, embeddings):
        sums = (
            sum(math.exp(distance(a, p)) for p in positives),
            sum(math.exp(margin - distance(a, n)) for n in negatives),
        )
        values.append(max(0.0, math.log(sums[0]) + math.log(sums[1])) if all(sums) else 0.0)
    return values


def large_margin_softmax(labels, similarities, margin=4, scale=1.0):
    """By the angles themselves."""
    rows = np.asarray(similarities, np.float64)[:, :, 0].tolist()
    for label, row, both in zip(labels, rows, np.asarray(similarities, np.float64), strict=True):
        angle = math.acos(both[label, 0] / both[label, 1])
        k = math.floor(margin * angle / math.pi)
        row[label] = ((-1) ** k * math.cos(margin * angle) - 2 * k) * both[label, 1]
    return cross_entropy(labels, [[scale * each for each in row] for row in rows])


def p2s_grad(labels, similarities):
    return [
        mean([(s - (number == label)) ** 2 for number, s in enumerate(row)])
        for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True)
    ]


def mean(values):
    return sum(values) / max(len(values), 1)


def angular(labels, embeddings, alpha):
    tangent, values = math.tan(math.radians(alpha)) ** 2, []
    lengths = np.linalg.norm(np.asarray(embeddings, np.float64), axis=1, keepdims=True)
    for a, positives, negatives in anchors(labels, embeddings / lengths):
        of_pairs = []
        for p in positives:
            exponents = [4 * tangent * dot(a + p, n) - 2 * (1 + tangent) * dot(a, p) for n in negatives]
            of_pairs.append(math.log(1 + sum(map(math.exp, exponents))))
        values.append(mean(of_pairs))
    return values


def binomial_deviance(labels, embeddings, alpha=2.0, beta=0.5, negative_cost=25.0):
    """As Ustinova and Lempitsky print it, split by the first row of each pair."""
    costs = []
    for a, positives, negatives in anchors(labels, embeddings):
        kinds = (positives, -1.0), (negatives, negative_cost)
        costs.append(
            [sum(math.log(math.exp(c * alpha * (cosine(a, x) - beta)) + 1) for x in rows) for rows, c in kinds]
        )
    counts = np.sum([(len(near), len(far)) for _, near, far in anchors(labels, embeddings)], axis=0)
    return [len(labels) * sum(np.divide(each, np.maximum(counts, 1))) for each in costs]


def circle(labels, embeddings, margin=0.4, scale=80.0, weights_at=None):
    """Equation (6) of Circle Loss; the weights are those of other embeddings where some are passed."""
    values, fixed = [], embeddings if weights_at is None else weights_at
    both = zip(anchors(labels, embeddings), anchors(labels, fixed), strict=True)
    for (a, positives, negatives), (fixed_a, *fixed_rows) in both:
        positive_sum = negative_sum = 0.0
        for x, fixed_x in zip(positives, fixed_rows[0], strict=True):
            weight = max(0.0, 1 + margin - cosine(fixed_a, fixed_x))
            positive_sum += math.exp(-scale * weight * (cosine(a, x) - (1 - margin)))
        for x, fixed_x in zip(negatives, fixed_rows[1], strict=True):
            weight = max(0.0, cosine(fixed_a, fixed_x) + margin)
            negative_sum += math.exp(scale * weight * (cosine(a, x) - margin))
        values.append(math.log(1 + negative_sum * positive_sum))
    return values


def contrastive(labels, embeddings, margin=1.0, positive_margin=0.0, squared_positives=True, squared_negatives=False):
    """Equation (10) of Attention-based Ensemble; with both squared that of Lifted Structure."""
    return [
        sum(max(0.0, distance(a, p) - positive_margin) ** (1 + squared_positives) for p in positives)
        + sum(max(0.0, margin - distance(a, n)) ** (1 + squared_negatives) for n in negatives)
        for a, positives, negatives in anchors(labels, embeddings)
    ]


def fast_ap(labels, embeddings, bins):
    """1 - FastAP of each query, node by node."""
    step, values = 4 / bins, []
    for query, *kinds in anchors(labels, embeddings):
        if not all(kinds):
            values.append(0.0)
            continue
        squared = [[2 - 2 * cosine(query, x) for x in rows] for rows in kinds]
        precision = found = seen = 0.0
        for node in [step * number for number in range(bins + 1)]:
            here, there = (sum(max(0.0, 1 - abs(d - node) / step) for d in these) for these in squared)
            found += here
            seen += here + there
            precision += here * found / seen if seen else 0.0
        values.append(1 - precision / len(kinds[0]))
    return values


def soft_histogram(similarities, bins):
    """Node by node, as the paper of the histogram loss defines it: a triangle as wide as two steps at each node."""
    step = 2 / bins
    nodes = [-1 + number * step for number in range(bins + 1)]
    return [sum(max(0.0, 1 - abs(s - node) / step) for s in similarities) / len(similarities) for node in nodes]


def histogram(labels, embeddings, bins, queries=None):
    """The value of the batch: pairs make two histograms. With `queries`, only those whose anchor is among the first."""
    kinds = [], []
    for a, *others in list(anchors(labels, embeddings))[:queries]:
        for similarities, rows in zip(kinds, others, strict=True):
            similarities += [cosine(a, x) for x in rows]
    if not all(kinds):
        return 0.0
    positive, negative = (soft_histogram(similarities, bins) for similarities in kinds)
    return sum(negative[r] * sum(positive[: r + 1]) for r in range(bins + 1))


def lifted_structure(labels, embeddings, margin=1.0, form="smooth", normalize=False):
    """Half of the cost of each pair at both ends, scaled so that their mean is the paper's J."""
    rows = np.asarray(embeddings, np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize else rows
    gaps = [[margin - distance(a, n) for n in negatives] for a, _, negatives in anchors(labels, rows)]
    size, halves, pairs = len(labels), [0.0] * len(labels), 0
    for i, j in np.ndindex(size, size):
        if i <= j or labels[i] != labels[j]:
            continue
        pairs += 1
        if form == "hard":
            violation = max(gaps[i] + gaps[j], default=-math.inf)
        else:
            total = sum(map(math.exp, gaps[i] + gaps[j]))
            violation = math.log(total) if total else -math.inf
        cost = max(0.0, violation + distance(rows[i], rows[j])) ** 2
        halves[i] += cost / 2
        halves[j] += cost / 2
    return [half * size / (2 * max(pairs, 1)) for half in halves]


def multi_similarity(labels, embeddings, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, mining="multi_similarity"):
    """Mining and loss as in Multi-Similarity Loss with General Pair Weighting, an anchor's part."""
    values = []
    for a, *kinds in anchors(labels, embeddings):
        positives, negatives = ([cosine(a, x) for x in rows] for rows in kinds)
        if mining != "all":
            hardest_positive, hardest_negative = min(positives, default=math.inf), max(negatives, default=-math.inf)
            negatives = [s for s in negatives if s > hardest_positive - epsilon]
            positives = [s for s in positives if s < hardest_negative + epsilon]
        pull = math.log(1 + sum(math.exp(-alpha * (s - base)) for s in positives)) / alpha
        push = math.log(1 + sum(math.exp(beta * (s - base)) for s in negatives)) / beta
        values.append(pull + push)
    return values


def n_pair(labels, embeddings, margin=0.0, scale=1.0, negatives="all", normalize=False, regularization=0.0):
    """Equation (3) of EDMS, and equation (2) of Ranked List Loss with its pairs formed by hand."""
    given = np.asarray(embeddings, np.float64)
    rows = [x / math.sqrt(dot(x, x)) for x in given] if normalize else given
    members = {label: [j for j, other in enumerate(labels) if other == label] for label in labels}

    def cost(i, positive, others):
        gaps = [dot(rows[i], rows[n]) - dot(rows[i], rows[positive]) + margin for n in others]
        return math.log(1 + sum(math.exp(scale * gap) for gap in gaps)) + regularization * dot(given[i], given[i])

    values = [0.0] * len(labels)
    if negatives == "first_pair_per_class":
        # The mean over the batch's rows is the mean over pairs.
        pairs = [own[:2] for own in members.values() if len(own) > 1]
        for a, p in pairs if len(pairs) > 1 else []:
            values[a] = cost(a, p, [n for _, n in pairs if n != p]) * len(labels) / len(pairs)
        return values
    for i, label in enumerate(labels):
        own = members[label]
        positives, others = [j for j in own if j != i], [j for j in range(len(labels)) if labels[j] != label]
        if negatives == "one_per_class" and positives:
            place = (own.index(i) + 1) % len(own)
            positives = [own[place]]
            others = [rest[place] for name, rest in members.items() if name != label and place < len(rest)]
        values[i] = mean([cost(i, p, others) for p in positives]) if others else 0.0
    return values


def in_ball(x, curvature, clip):
    """The exponential map at the origin of the Poincaré ball, of a row that is at most as long as `clip`."""
    length = math.sqrt(dot(x, x))
    clipped = math.sqrt(curvature) * min(length, clip)
    return [math.tanh(clipped) / math.sqrt(curvature) * each / (length or 1.0) for each in x]


def poincare_distance(x, y, curvature=0.1, clip=2.3):
    """By Möbius addition, 2 / sqrt(c) artanh(sqrt(c) |-u + v|), as papers on hyperbolic networks print it."""
    u, v = (in_ball(each, curvature, clip) for each in (x, y))
    u = [-each for each in u]
    uv, uu, vv = dot(u, v), dot(u, u), dot(v, v)
    below = 1 + 2 * curvature * uv + curvature**2 * uu * vv
    above = [
        (1 + 2 * curvature * uv + curvature * vv) * a + (1 - curvature * uu) * b for a, b in zip(u, v, strict=True)
    ]
    return 2 / math.sqrt(curvature) * math.atanh(math.sqrt(curvature) * math.sqrt(dot(above, above)) / below)


def hyperbolic_nt_xent(labels, embeddings, temperature=0.2, **ball):
    values = []
    for a, *kinds in anchors(labels, embeddings):
        near, far = ([math.exp(-poincare_distance(a, x, **ball) / temperature) for x in rows] for rows in kinds)
        values.append(mean([-math.log(one / (one + sum(far))) for one in near]) if far else 0.0)
    return values


def potential_field(labels, taken, classes, per_class, alpha=4.0, delta=0.2):
    """The potential of each image among the others and the proxies, point by point."""
    taken = np.asarray(taken, np.float64)[:, 0]
    rows, cosines = taken[:, : -classes * per_class], taken[:, -classes * per_class :]
    values = []
    for i, row in enumerate(rows):
        points = [(distance(unit(row), unit(x)), labels[j]) for j, x in enumerate(rows) if j != i]
        points += [(math.sqrt(2 - 2 * s), number // per_class) for number, s in enumerate(cosines[i])]
        total = 0.0
        for d, label in points:
            if label == labels[i]:
                total -= max(d, delta) ** -alpha
            else:
                inside = alpha / 2 * (1 - (d / delta) ** 2) * delta**-alpha if d < delta else 0.0
                total += max(d, delta) ** -alpha + inside
        values.append(total / len(points))
    return values


def unit(x):
    return np.asarray(x) / math.sqrt(dot(x, x))


def nt_xent(labels, embeddings, temperature):
    """Equation (1) of SimCLR for each positive pair, all other rows of the sum being negatives; an anchor's mean."""
    values = []
    for a, *kinds in anchors(labels, embeddings):
        positives, negatives = ([math.exp(cosine(a, x) / temperature) for x in rows] for rows in kinds)
        values.append(mean([-math.log(one / (one + sum(negatives))) for one in positives]))
    return values


def ranked_list_of(i, labels, rows, alpha, margin, positive_temperature, negative_temperature, balance):
    """The non-trivial pairs of query i: [(row, weight with the balance in it, violation, sign of the distance)].

    Weights are those of equations (9) and (10) of Ranked List Loss, divided by their sum.
    """
    to_query = [distance(rows[i], row) for row in rows]
    others = [j for j in range(len(labels)) if j != i]
    positives = [j for j in others if labels[j] == labels[i] and to_query[j] > alpha - margin]
    negatives = [j for j in others if labels[j] != labels[i] and to_query[j] < alpha]
    found = []
    for members, sign, boundary, temperature, part in (
        (positives, 1, alpha - margin, positive_temperature, 1 - balance),
        (negatives, -1, alpha, negative_temperature, balance),
    ):
        violations = [sign * (to_query[j] - boundary) for j in members]
        weights = [math.exp(temperature * violation) for violation in violations]
        pairs = zip(members, weights, violations, strict=True)
        found += [(j, part * weight / sum(weights), violation, sign) for j, weight, violation in pairs]
    return found


RANKED_LIST = {"alpha": 1.2, "margin": 0.4, "positive_temperature": 0.0, "negative_temperature": 10.0, "balance": 0.5}
RANKED_LISTS = [
    {},
    {"alpha": 0.9},
    {"alpha": 2.5, "margin": 2.5},
    {"positive_temperature": 7.0},
    {"positive_temperature": -7.0, "negative_temperature": 0.0},
    {"negative_temperature": -3.0},
    {"balance": 0.2},
    {"balance": 1.0},
]


def ranked_list(labels, embeddings, **arguments):
    """Equations (8) to (13), query by query."""
    rows, arguments = np.asarray(embeddings, np.float64), {**RANKED_LIST, **arguments}
    return [sum(w * v for _, w, v, _ in ranked_list_of(i, labels, rows, **arguments)) for i in range(len(labels))]


def ranked_list_simpler(labels, embeddings, margin=0.4, negative_temperature=10.0):
    """Section 3.4 of Ranked List Loss: boundaries 1 - m / 2 and 1 + m / 2, positives unweighted, both halves equal."""
    values = []
    for a, positives, negatives in anchors(labels, embeddings):
        pulls = [v for v in (distance(a, p) - (1 - margin / 2) for p in positives) if v > 0]
        pushes = [v for v in (1 + margin / 2 - distance(a, n) for n in negatives) if v > 0]
        weights = [math.exp(negative_temperature * v) for v in pushes]
        values.append(mean(pulls) / 2 + dot(weights, pushes) / (sum(weights) or 1.0) / 2)
    return values


def smooth_ap(labels, embeddings, temperature=0.01, include_query=False):
    """1 - AP of each query with ranks that are sums of sigmoids, row by row."""

    def rank(score, among):
        return 1 + sum(0.5 * (1 + math.tanh((other - score) / temperature / 2)) for other in among)

    values = []
    for query, *kinds in anchors(labels, embeddings):
        positives, others = ([cosine(query, x) for x in rows] for rows in kinds)
        own, precisions = [1.0, *positives] if include_query else positives, []
        for place, score in enumerate(own):
            rest = own[:place] + own[place + 1 :]
            precisions.append(rank(score, rest) / rank(score, rest + others))
        values.append(1 - mean(precisions) if positives else 0.0)
    return values


def recall_at_k(labels, embeddings, ks=(1, 2, 4, 8, 16), temperature=0.01, rank_temperature=1.0, include_query=False):
    """1 - recall at each k of each query, with ranks that are sums of sigmoids, row by row."""
    return recalls(
        labels,
        [[cosine(x, y) for y in embeddings] for x in np.asarray(embeddings, np.float64)],
        ks,
        temperature,
        rank_temperature,
        include_query,
    )


def recalls(labels, similarities, ks, temperature, rank_temperature, include_query=False):
    """The values of `recall_at_k` from similarities. A label of None is in no pair."""

    def step(value):
        return 0.5 * (1 + math.tanh(value / 2))

    values = []
    for i, row in enumerate(similarities):
        there = [j for j, label in enumerate(labels) if label is not None and (j != i or include_query)]
        own = [j for j in there if j != i and labels[j] == labels[i]]
        ranks = [1 + sum(step((row[j] - row[p]) / temperature) for j in there if j != p) for p in own]
        recall = [sum(step((k - rank) / rank_temperature) for rank in ranks) / min(k, len(own) or 1) for k in ks]
        trivial = labels[i] is None or not own or all(labels[j] == labels[i] for j in there)
        values.append(0.0 if trivial else 1 - mean(recall))
    return values


def sup_con(labels, embeddings, temperature, form):
    """Equations (2) and (3) of Supervised Contrastive Learning, an anchor's part of the sum."""
    values = []
    for a, *kinds in anchors(labels, embeddings):
        positives, negatives = ([math.exp(cosine(a, x) / temperature) for x in rows] for rows in kinds)
        shares = [one / sum(positives + negatives) for one in positives]
        if not shares:
            values.append(0.0)
        else:
            values.append(mean([-math.log(share) for share in shares]) if form == "out" else -math.log(mean(shares)))
    return values


def threshold_consistent_margin(
    labels, embeddings, positive_margin=0.9, negative_margin=0.5, positive_weight=1.0, negative_weight=1.0
):
    """The regularizer of the whole batch, pair by pair."""
    pulls, pushes = [], []
    for a, positives, negatives in anchors(labels, embeddings):
        pulls += [positive_margin - cosine(a, p) for p in positives if cosine(a, p) < positive_margin]
        pushes += [cosine(a, n) - negative_margin for n in negatives if cosine(a, n) > negative_margin]
    return positive_weight * mean(pulls) + negative_weight * mean(pushes)


def triplet(labels, embeddings, margin, mining, distance="squared_euclidean"):
    """Every triplet, from the words of the papers."""
    values, measure = [], DISTANCES[distance]
    for a, *kinds in anchors(labels, embeddings):
        positives, negatives = ([measure(a, x) for x in rows] for rows in kinds)
        if not positives or not negatives:
            triplets = []
        elif mining == "all":
            triplets = [(positive, negative) for positive in positives for negative in negatives]
        elif mining == "hard":
            triplets = [(positive, min(negatives)) for positive in positives]
        elif mining == "batch_hard":
            triplets = [(max(positives), min(negatives))]
        else:
            farther = [(p, [negative for negative in negatives if negative > p]) for p in positives]
            triplets = [(p, min(beyond, default=max(negatives))) for p, beyond in farther]
        values.append(mean([max(0.0, positive - negative + margin) for positive, negative in triplets]))
    return values


def cross_entropy(labels, exponents):
    """Cross-entropy of the softmax, class by class, with the highest exponent taken out of both parts."""
    values = []
    for label, row in zip(labels, exponents, strict=True):
        total = sum(math.exp(exponent - max(row)) for exponent in row)
        values.append(max(row) + math.log(total) - row[label])
    return values


def with_own(labels, similarities, change):
    """Rows of numbers in which that of each row's class is changed by a function."""
    rows = np.asarray(similarities, np.float64).tolist()
    for label, row in zip(labels, rows, strict=True):
        row[label] = change(row[label])
    return rows


def arc_face(labels, similarities, scale=64.0, margin=0.5, monotonic=True):
    """By the angles themselves."""

    def wider(cosine):
        if monotonic and math.acos(cosine) + margin > math.pi:
            return cosine - margin * math.sin(margin)
        return math.cos(math.acos(cosine) + margin)

    return cross_entropy(labels, [[scale * s for s in row] for row in with_own(labels, similarities, wider)])


def sub_center_arc_face(labels, similarities, **arguments):
    return arc_face(labels, np.max(similarities, axis=2), **arguments)


def cos_face(labels, similarities, scale=64.0, margin=0.35):
    narrower = with_own(labels, similarities, lambda cosine: cosine - margin)
    return cross_entropy(labels, [[scale * s for s in row] for row in narrower])


def norm_softmax(labels, similarities, temperature):
    return cross_entropy(labels, [[s / temperature for s in row] for row in similarities.tolist()])


def generalized_cross_entropy(labels, similarities, q, temperature=0.1):
    entropies = norm_softmax(labels, similarities, temperature)
    return [(1 - math.exp(-entropy) ** q) / q for entropy in entropies]


def proxy_n_pair(labels, similarities, margin, scale):
    """Equation (4) of EDMS with a scale, proxy by proxy."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        others = [s for number, s in enumerate(row) if number != label]
        values.append(math.log(1 + sum(math.exp(scale * (s - row[label] + margin)) for s in others)))
    return values


def proxy_nca(labels, similarities, scale=1.0, exclude_positive=True):
    """With squared distances on the sphere; with one proxy there is nothing to compare with."""
    values = []
    for label, row in zip(labels, similarities.astype(np.float64), strict=True):
        near = [math.exp(-scale * (2 - 2 * cosine)) for cosine in row]
        compared = [value for number, value in enumerate(near) if number != label or not exclude_positive]
        values.append(-math.log(near[label] / sum(compared or near)))
    return values


def soft_triple(labels, similarities, scale=20.0, center_temperature=0.1, margin=0.01):
    relaxed = []
    for row in np.asarray(similarities, np.float64):
        weights = [[math.exp(cosine / center_temperature) for cosine in cosines] for cosines in row]
        relaxed.append([dot(one, cosines) / sum(one) for one, cosines in zip(weights, row, strict=True)])
    return cos_face(labels, relaxed, scale=scale, margin=margin)


def proxy_anchor(labels, similarities, scale=32.0, margin=0.1):
    """Equation (4) of the paper; each image has an even share of every term it is in, times the size of the batch."""
    values, similarities = [0.0] * len(labels), np.asarray(similarities, np.float64)
    size, classes = similarities.shape
    for proxy in range(classes):
        near = [x for x, label in enumerate(labels) if label == proxy]
        far = [x for x, label in enumerate(labels) if label != proxy]
        pull = math.log1p(sum(math.exp(-scale * (similarities[x, proxy] - margin)) for x in near))
        push = math.log1p(sum(math.exp(scale * (similarities[x, proxy] + margin)) for x in far))
        for x in near:
            values[x] += size * pull / len(near) / len(set(labels))
        for x in far:
            values[x] += size * push / len(far) / classes
    return values
