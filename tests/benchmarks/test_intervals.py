"""Intervals of one seed, of a few groups and of many differences are as wide as they must be."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from benchmarks.pages.contrasts import contrast, corrected, holm
from benchmarks.pages.seed_variance import SeedVariances, variance_between_seeds
from tests.evaluation.test_all_pairs import resampled_means
from tfdml.evaluation.statistics import Seeds, all_pairs
from tfdml.run.study import records

QUERIES = np.array([20, 50, 40, 10])


def measured_runs(folder, right, queries=10, **more):
    """Returns run directories with these numbers of correct queries per class, `[seeds, classes]`."""
    for number, counts in enumerate(right):
        run_dir = folder / str(number)
        run_dir.mkdir(parents=True)
        measured = {"queries": [queries] * len(counts), "right": list(map(float, counts)), **more}
        (run_dir / records.FILE).write_text(json.dumps(measured))
    return sorted(folder.iterdir())


def test_the_variance_between_seeds_is_that_of_a_naive_loop():
    right = np.random.default_rng(0).integers(0, 10, (3, 2, 4)).astype(float)
    rows, seeds, classes = right.shape
    recall = [[sum(right[row, seed]) / sum(QUERIES) for seed in range(seeds)] for row in range(rows)]

    def residual(value, row, seed):
        of_row = sum(value(row, each) for each in range(seeds)) / seeds
        of_seed = sum(value(each, seed) for each in range(rows)) / rows
        mean = sum(value(a, b) for a in range(rows) for b in range(seeds)) / (rows * seeds)
        return value(row, seed) - of_row - of_seed + mean

    total = of_classes = 0
    for row, seed in itertools.product(range(rows), range(seeds)):
        total += residual(lambda a, b: recall[a][b], row, seed) ** 2 / 2
        for place in range(classes):
            size = sum(QUERIES) / classes

            def deviation(a, b, place=place, size=size):
                return (right[a, b, place] - recall[a][b] * QUERIES[place]) / size

            of_classes += residual(deviation, row, seed) ** 2 / (2 * (classes - 1)) / classes
    variance, degrees = variance_between_seeds(QUERIES, right)
    assert degrees == 2 and variance == pytest.approx(total - of_classes)
    assert variance_between_seeds(QUERIES, right[:, :1]) == (0.0, 0)


def simulated(random, rows, seeds, classes=60, queries=40):
    """Recall@1 of rows that are equally good: seeds, classes and both together change it, with random queries."""
    chance = 0.4 + random.normal(0, 0.08, (rows, 1, classes)) + random.normal(0, 0.02, (rows, seeds, 1))
    chance = chance + random.normal(0, 0.08, (rows, seeds, classes))
    return random.binomial(queries, np.clip(chance, 0, 1))


def test_the_variance_between_seeds_leaves_out_that_of_classes():
    random = np.random.default_rng(0)
    found = [variance_between_seeds(np.full(60, 40), simulated(random, 11, 3))[0] for _ in range(60)]
    assert np.mean(found) ** 0.5 == pytest.approx(0.02, rel=0.1)


def test_intervals_of_one_seed_contain_the_true_difference_in_about_95_percent(tmp_path):
    """Without the variance between seeds, they miss it several times as often."""
    random, missed = np.random.default_rng(0), {True: 0, False: 0}
    for study in range(300):
        variance, degrees = variance_between_seeds(np.full(60, 40), simulated(random, 11, 3))
        rows = [
            measured_runs(tmp_path / f"{study}-{row}", right, queries=40)
            for row, right in enumerate(simulated(random, 2, 1))
        ]
        for known in missed:
            of_rows = records.recalls(rows, samples=200, variance=(max(variance, 0.0), degrees) if known else None)
            _, low, high = all_pairs(*of_rows).interval(1, 0)
            missed[known] += low > 0 or high < 0
    assert 6 <= missed[True] <= 24 and missed[False] > 30, missed


def test_intervals_over_four_groups_contain_the_true_difference(tmp_path):
    """As on Omniglot, where the test classes are of four alphabets; normal quantiles would miss it in about 15%."""
    random, missed, normal, fewest = np.random.default_rng(0), 0, 0, np.inf
    groups = np.repeat(np.arange(4), (40, 26, 42, 17))
    for study in range(200):
        of_groups = 0.6 + random.normal(0, 0.04, (2, 1, 4))[..., groups] + random.normal(0, 0.005, (2, 3, 1))
        right = random.binomial(20, np.clip(of_groups, 0, 1))
        rows = [
            measured_runs(tmp_path / f"{study}-{row}", each, queries=20, groups=groups.tolist())
            for row, each in enumerate(right)
        ]
        of_rows = records.recalls(rows, samples=300)
        _, low, high = all_pairs(*of_rows).interval(1, 0)
        missed += low > 0 or high < 0
        found = contrast((-1, 1), *of_rows)
        fewest = min(fewest, found.degrees)
        normal += abs(found.mean) > 1.96 * found.error
    assert 2 < fewest < 3 and missed <= 18 < normal, (missed, normal, fewest)


def lines_of(right, queries, name="row", **more):
    """Records of rows `[rows, seeds, classes]`."""
    rows, seeds, _ = right.shape
    return [
        {"run": f"{name}{row}-seed{seed}", "measured": {"queries": queries, "right": right[row, seed].tolist(), **more}}
        for row, seed in itertools.product(range(rows), range(seeds))
    ]


def test_rows_get_the_variance_between_seeds_of_their_own_file_or_else_the_largest(tmp_path):
    queries = QUERIES.tolist()
    # All classes of a run deviate together, with opposite signs in the first two rows.
    steady, noisy, other = (
        np.array([[[5 + by] * classes, [5 - by] * classes], [[5 - by] * classes, [5 + by] * classes]])
        for by, classes in ((0.1, 4), (1.0, 4), (3.0, 2))
    )
    alone = {"queries": queries, "right": [1, 2, 3, 4]}
    # A row with a single step is a closed form. It varies most but does not count, and neither does a single seed.
    closed = lines_of(3 * noisy, queries, "closed")
    files = {
        "steady": [*lines_of(steady, queries), {"run": "alone-seed0", "measured": alone}],
        "noisy": [*lines_of(noisy, queries), *({**line, "result": {"step": 1}} for line in closed)],
        "other": lines_of(other, [9, 9], groups=[0, 1]),
        "single": [{"run": "alone-seed0", "measured": alone}],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = {
        name: (pytest.approx(variance), degrees)
        for name, (variance, degrees) in {
            "steady": variance_between_seeds(QUERIES, steady),
            "noisy": variance_between_seeds(QUERIES, noisy),
            "other": variance_between_seeds(np.array([9, 9]), other),
        }.items()
    }
    found = SeedVariances(tmp_path)
    assert found.of(alone, "steady") == expected["steady"]
    assert found.of(alone, "noisy") == found.of(alone, "single") == expected["noisy"]
    assert found.of({"queries": [1, 2, 3]}, "steady") == expected["other"]
    assert 0 < found.of(alone, "steady")[0] < found.of(alone, "noisy")[0] < found.of({"queries": [1]}, "noisy")[0]
    assert SeedVariances(tmp_path / "empty").of(alone, "steady") is None


def test_a_contrast_of_two_rows_is_their_difference():
    values = np.random.default_rng(0).normal(size=(60, 3)) + [0.0, 0.2, 0.5]
    given = values.mean(axis=0)[:2], resampled_means(values)[:, :2], 11.5, Seeds(np.array([0.01, 0.002]), 2)
    found = contrast((-1, 1), *given)
    mean, low, high = all_pairs(*given).interval(1, 0)
    assert found.mean == pytest.approx(mean)
    # Quantiles of the largest error of one pair are those of a normal distribution, or slightly larger.
    assert stats.t.isf(0.025, found.degrees) * found.error == pytest.approx((high - low) / 2, rel=0.05)
    assert np.std(found.draws) == pytest.approx(found.error, rel=0.1)
    one_seed = contrast((-1, 1), *given[:3])
    assert one_seed.degrees == 11.5 and one_seed.error < found.error


def test_contrasts_of_all_pairs_are_corrected_as_all_pairs():
    values = np.random.default_rng(1).normal(size=(80, 4)) + [0.0, 0.1, 0.3, 0.5]
    means, resampled = values.mean(axis=0), resampled_means(values)
    found, expected = [], all_pairs(means, resampled, 79)
    pairs = list(itertools.combinations(range(4), 2))
    for first, second in pairs:
        found.append(contrast((1, -1), means[[first, second]], resampled[:, [first, second]], 79))
    assert corrected(found) == pytest.approx([expected.p_values[pair] for pair in pairs])
    alone = corrected(found[:1])[0]
    assert alone <= corrected(found)[0]


def test_rows_with_the_same_name_have_the_same_errors_of_seeds():
    given = np.zeros(2), np.zeros((400, 2)), 10, Seeds(np.array([1.0, 1.0]), 4)
    first = contrast((-1, 1), *given, names=("a", "b")).draws
    same, turned, other = (contrast((-1, 1), *given, names=names).draws for names in ("ab", "ba", "cd"))
    np.testing.assert_array_equal(first, same)
    np.testing.assert_allclose(first, -turned)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.2


def test_holms_method():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01, 0.04], count=8) == pytest.approx([0.08, 0.28])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []
