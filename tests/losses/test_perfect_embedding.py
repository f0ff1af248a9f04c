"""An embedding in which each class is one point, far from the others, costs the hinge losses nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses.loops import value_and_gradient
from tests.night import others_at_night
from tfdml import registry

few = settings(max_examples=4, deadline=None)

# With classes on orthogonal axes at unit length negatives are at a distance of sqrt(2), positives at 0.
AT_UNIT_LENGTH = [
    "contrastive",
    "contrastive(squared_positives=False, squared_negatives=True, positive_margin=0.1)",
    *(
        f"triplet(mining={mining!r}, distance={distance!r})"
        for mining in ("all", "semi_hard", "hard", "batch_hard", "distance_weighted")
        for distance in ("squared_euclidean", "euclidean")
    ),
    *(f"margin(mining={mining!r})" for mining in ("all", "distance_weighted")),
    "margin(beta=0.6, margin=0.5, mining='all')",
    "ranked_list",
    "ranked_list(positive_temperature=3.0, balance=0.2)",
    "ranked_list_simpler",
    "threshold_consistent_margin",
]
BY_DAY = (
    "contrastive",
    "triplet(mining='batch_hard', distance='euclidean')",
    "ranked_list",
)
# Which compares distances to a sum over all negatives and so needs more room than its margin.
FAR_APART = ["lifted_structure(form='hard')", "lifted_structure(form='smooth')"]


@st.composite
def perfect(draw, length):
    """Labels `[B]` in any order and embeddings `[B, d]`, a turned orthogonal axis for each class."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=6))
    dim = len(sizes) + draw(st.integers(0, 3))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    axes, _ = np.linalg.qr(random.normal(size=(dim, dim)))
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return labels, length * axes[labels]


@pytest.mark.slow
@pytest.mark.parametrize("spec", others_at_night(AT_UNIT_LENGTH, BY_DAY))
@few
@given(batch=perfect(length=1.0))
def test_orthogonal_classes_cost_nothing(spec, batch):
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        values, gradient = value_and_gradient(registry.create("loss", spec), batch[0], batch[1].astype(dtype))
        np.testing.assert_allclose(values, 0.0, atol=tolerance)
        # Squared distances of what rounding leaves have a gradient of its size.
        np.testing.assert_allclose(gradient, 0.0, atol=tolerance**0.5)


@pytest.mark.parametrize("spec", FAR_APART)
@few
@given(batch=perfect(length=100.0))
def test_classes_far_apart_cost_nothing(spec, batch):
    values, gradient = value_and_gradient(registry.create("loss", spec), *batch)
    np.testing.assert_array_equal(values, np.zeros(len(values)))
    np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


@pytest.mark.parametrize("spec", AT_UNIT_LENGTH + FAR_APART)
@pytest.mark.few_by_day(7)
def test_one_row_among_another_class_costs_something(spec):
    """What makes the tests above able to fail."""
    scale = 100.0 if spec in FAR_APART else 1.0
    embeddings = scale * np.eye(3)[[0, 0, 1, 1, 2, 0]]
    values, _ = value_and_gradient(registry.create("loss", spec), np.array([0, 0, 1, 1, 2, 2]), embeddings)
    assert np.max(values) > 0.01
