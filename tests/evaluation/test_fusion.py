"""Equation (1) of EDMS, and the weights in it."""

import numpy as np
import pytest

from tfdml.evaluation.evaluate import evaluate, fit_weights, fuse

ROWS = 40


def members_of(*dims, seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=(ROWS, dim)).astype("float32") * random.uniform(0.5, 2.0) for dim in dims]


@pytest.mark.parametrize("dims", [(4, 4, 4), (3, 5, 2), (6,)])
@pytest.mark.parametrize("weighted", [False, True])
def test_inner_products_are_the_weighted_sum_of_cosines(dims, weighted):
    members = members_of(*dims)
    weights = [1.0, 0.25, 3.0][: len(dims)] if weighted else [1.0] * len(dims)
    fused = fuse(members, weights if weighted else None)
    assert fused.shape == (ROWS, len(dims) * max(dims)) and fused.dtype == np.float32
    for i in range(0, ROWS, 7):
        for j in range(ROWS):
            naive = 0.0
            for member, weight in zip(members, weights, strict=True):
                cosine = member[i] @ member[j] / np.linalg.norm(member[i]) / np.linalg.norm(member[j])
                naive += weight * cosine
            assert fused[i] @ fused[j] == pytest.approx(naive / sum(weights), abs=1e-6)


def test_only_the_ratios_of_weights_count():
    members = members_of(4, 4)
    np.testing.assert_allclose(fuse(members, [1, 3]), fuse(members, [2.0, 6.0]), atol=1e-7)
    np.testing.assert_allclose(fuse(members), fuse(members, [5, 5]), atol=1e-7)


def test_fitted_weights_leave_out_what_only_disturbs():
    """One member separates the classes. The other two are unrelated noise with large embeddings."""
    labels = np.arange(ROWS) // 4
    random = np.random.default_rng(0)
    known = np.eye(10)[labels] + random.normal(0, 0.25, (ROWS, 10))
    noise = [random.normal(size=(ROWS, 10)) for _ in range(2)]
    members = [noise[0], known, noise[1]]

    def measure(embeddings):
        return evaluate(embeddings, labels, "recall_at_1")["recall_at_1"]

    weights = fit_weights(members, measure)
    assert weights.dtype.kind == "i" and weights.min() >= 0
    assert weights[1] > weights[0] + weights[2]
    assert measure(fuse(members, weights)) > measure(fuse(members))
    np.testing.assert_array_equal(fit_weights(members, measure), weights)


def test_weights_stay_1_where_no_others_are_better():
    members = members_of(4, 4, 4)
    np.testing.assert_array_equal(fit_weights(members, lambda fused: 0.5), [1, 1, 1])


def test_selection_takes_the_best_step_by_step():
    """With a known measure, the best member is added next, or the first of several equal ones."""
    members = [np.full((3, 1), 1.0), np.full((3, 1), -1.0)]
    seen = []

    def measure(fused):
        seen.append(fused[0].tolist())
        # The second member's share of the weights. The best value is 1/3.
        share = 0.0 if fused.shape[1] == 1 and fused[0, 0] > 0 else float(fused[0, -1] ** 2)
        return -abs(share - 1 / 3)

    np.testing.assert_array_equal(fit_weights(members, measure), [2, 1])
    assert len(seen) == 1 + 2 * len(members) ** 2
