"""Linear discriminants and components after whitening within classes, compared with their definitions."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from tfdml.neighbors.projections import linear_discriminants, within_class_whitened_components

ROWS, WIDTH = 60, 7


@pytest.fixture
def labels():
    return np.arange(ROWS) % 4 * 3


@pytest.fixture
def vectors(labels):
    random = np.random.default_rng(0)
    scales = np.linspace(0.1, 2.0, WIDTH)
    return random.normal(size=(ROWS, WIDTH)) * scales + random.normal(size=(10, WIDTH))[labels]


def scatter(vectors, labels):
    """The covariance within classes, computed one class at a time."""
    found = np.zeros((WIDTH, WIDTH))
    for label in np.unique(labels):
        apart = vectors[labels == label] - vectors[labels == label].mean(axis=0)
        found += apart.T @ apart
    return found / (len(vectors) - len(np.unique(labels)))


def projectors(directions):
    return [np.outer(each, each) for each in directions.T]


def within_with_shrinkage(vectors, labels):
    within = scatter(vectors, labels)
    return within + 0.3 * np.eye(WIDTH) * np.trace(within) / WIDTH


def between(vectors, labels):
    """The scatter of the class means, weighted by class size."""
    apart = [vectors[labels == label].mean(axis=0) - vectors.mean(axis=0) for label in labels]
    return sum(np.outer(each, each) for each in apart)


def test_discriminants_separate_class_means(vectors, labels):
    within = within_with_shrinkage(vectors, labels)
    _, expected = eigh(between(vectors, labels), within)
    found = linear_discriminants(vectors, labels, 3)
    assert found.shape == (WIDTH, 3)
    np.testing.assert_allclose(projectors(found), projectors(expected[:, ::-1][:, :3]), atol=1e-9)


def test_features_that_are_narrower_than_the_discriminants_have_all_their_directions(vectors):
    labels = np.arange(ROWS) % 10
    found = linear_discriminants(vectors, labels, WIDTH + 2)
    assert found.shape == (WIDTH, WIDTH) and np.linalg.matrix_rank(found) == WIDTH


def test_noise_is_no_discriminant():
    """One feature is noise with a large variance, and the other separates 20 classes."""
    random = np.random.default_rng(0)
    labels = np.arange(400) % 20
    vectors = np.stack([random.normal(size=400) * 10**0.5, random.normal(size=400) * 0.1 + labels / 20], axis=1)
    first = linear_discriminants(vectors, labels, 2)[:, 0]
    assert abs(first[1]) / np.linalg.norm(first) > 0.98


def test_beyond_the_discriminants_are_components_of_the_rest(vectors, labels):
    """Four classes have three discriminants. What follows is uncorrelated with them within classes."""
    within = within_with_shrinkage(vectors, labels)
    found = linear_discriminants(vectors, labels, WIDTH)
    np.testing.assert_allclose(found.T @ within @ found, np.eye(WIDTH), atol=1e-9)
    np.testing.assert_allclose(found[:, :3], linear_discriminants(vectors, labels, 3))
    rest = (vectors - vectors.mean(axis=0)) @ found[:, 3:]
    covariance = rest.T @ rest
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert np.all(np.diff(np.diag(covariance)) < 0)


def test_components_after_whitening_solve_the_problem_of_the_total_variance(vectors, labels):
    _, expected = eigh(np.cov(vectors.T), within_with_shrinkage(vectors, labels))
    found = within_class_whitened_components(vectors, labels, 5)
    assert found.shape == (WIDTH, 5)
    np.testing.assert_allclose(projectors(found), projectors(expected[:, ::-1][:, :5]), atol=1e-9)


def test_without_shrinkage_as_scikit_learn(vectors, labels):
    """Three directions separate four classes."""
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(vectors, labels).transform(vectors)[:, :3]
    found = (vectors - vectors.mean(axis=0)) @ linear_discriminants(vectors, labels, 3, shrinkage=0.0)
    correlation = np.corrcoef(found.T, expected.T)[:3, 3:]
    np.testing.assert_allclose(np.abs(np.diag(correlation)), 1.0, atol=1e-9)


@pytest.mark.parametrize("directions", [linear_discriminants, within_class_whitened_components])
def test_fewer_where_vectors_vary_in_fewer_dimensions(directions, vectors, labels):
    flat = vectors @ np.diag([1, 1, 1, 0, 0, 0, 0])
    assert directions(flat, labels, 7).shape == (WIDTH, 3)
    assert directions(vectors[:5], labels[:5], 7).shape == (WIDTH, 4)


@pytest.mark.parametrize("directions", [linear_discriminants, within_class_whitened_components])
def test_needs_two_images_of_a_class_that_differ(directions, vectors):
    with pytest.raises(ValueError, match="a class with two images with different features. Received: 60 images of 60"):
        directions(vectors, np.arange(ROWS), 3)
    with pytest.raises(ValueError, match="Use principal components"):
        directions(np.ones((ROWS, WIDTH)), np.zeros(ROWS), 3)
