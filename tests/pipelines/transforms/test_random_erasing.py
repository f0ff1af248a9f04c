import numpy as np

from tests.pipelines.steps import IMAGE, apply

WHITE = np.full((60, 50, 3), 255.0)


def rectangle(image, value):
    """Top, left, height and width of what has this value; it must be a full rectangle."""
    found = np.all(image == value, axis=2)
    rows, columns = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    assert found.sum() == len(rows) * len(columns) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    return rows[0], columns[0], len(rows), len(columns)


def test_areas_aspects_and_places():
    spec = "random_erasing(probability=1.0, area=(0.1, 0.3), aspect=(0.5, 2.0), fill=7)"
    found = np.array([rectangle(apply(spec, WHITE, seed), 7) for seed in range(300)])
    areas, aspects = found[:, 2] * found[:, 3] / 3000, found[:, 3] / found[:, 2]
    assert 0.095 < areas.min() < 0.11 and 0.29 < areas.max() < 0.305
    assert 0.45 < aspects.min() < 0.55 and 1.8 < aspects.max() < 2.1
    assert 0.4 < np.mean(aspects > 1) < 0.6
    # It reaches all four edges.
    assert found[:, 0].min() == found[:, 1].min() == 0
    assert (found[:, 0] + found[:, 2]).max() == 60 and (found[:, 1] + found[:, 3]).max() == 50


def test_all_else_stays():
    erased = apply("random_erasing(probability=1.0, fill=7.5)", IMAGE)
    changed = np.any(erased != IMAGE, axis=2)
    assert changed.any() and np.all(erased[changed] == 7.5)
    np.testing.assert_array_equal(erased[~changed], IMAGE[~changed])


def test_noise_is_even_over_the_range_and_differs_by_seed():
    first, second = (
        apply("random_erasing(probability=1.0, area=(1, 1), aspect=(1, 1), noise=True)", WHITE[:50], seed)
        for seed in range(2)
    )
    assert not np.isclose(first, second).all()
    assert 120 < first.mean() < 135 and first.min() < 2 and first.max() > 253
    assert len(np.unique(first)) > 0.99 * first.size


def test_what_is_too_small_for_a_rectangle_stays():
    image = WHITE[:3, :3]
    np.testing.assert_array_equal(apply("random_erasing(probability=1.0, area=(0.01, 0.02))", image), image)
