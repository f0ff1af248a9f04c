"""Linear discriminants, beside definitions."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from tfdml.neighbors.linear_discriminants import linear_discriminants

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
    """The covariance within classes, a class after the other."""
    found = np.zeros((WIDTH, WIDTH))
    for label in np.unique(labels):
        apart = vectors[labels == label] - vectors[labels == label].mean(axis=0)
        found += apart.T @ apart
    return found / (len(vectors) - len(np.unique(labels)))


def projectors(directions):
    return [np.outer(each, each) for each in directions.T]


def test_solves_the_generalized_problem_of_eigenvalues(vectors, labels):
    within = scatter(vectors, labels)
    within += 0.3 * np.eye(WIDTH) * np.trace(within) / WIDTH
    _, expected = eigh(np.cov(vectors.T), within)
    found = linear_discriminants(vectors, labels, 5)
    assert found.shape == (WIDTH, 5)
    np.testing.assert_allclose(projectors(found), projectors(expected[:, ::-1][:, :5]), atol=1e-9)


def test_without_shrinkage_as_scikit_learn(vectors, labels):
    """Of four classes three directions separate them."""
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(vectors, labels).transform(vectors)[:, :3]
    found = (vectors - vectors.mean(axis=0)) @ linear_discriminants(vectors, labels, 3, shrinkage=0.0)
    correlation = np.corrcoef(found.T, expected.T)[:3, 3:]
    np.testing.assert_allclose(np.abs(np.diag(correlation)), 1.0, atol=1e-9)


def test_fewer_where_vectors_vary_in_fewer_dimensions(vectors, labels):
    flat = vectors @ np.diag([1, 1, 1, 0, 0, 0, 0])
    assert linear_discriminants(flat, labels, 7).shape == (WIDTH, 3)
    assert linear_discriminants(vectors[:5], labels[:5], 7).shape == (WIDTH, 4)


def test_needs_two_images_of_a_class_that_differ(vectors):
    with pytest.raises(ValueError, match="a class with two images whose features differ, received 60 images of 60"):
        linear_discriminants(vectors, np.arange(ROWS), 3)
    with pytest.raises(ValueError, match="principal components do not"):
        linear_discriminants(np.ones((ROWS, WIDTH)), np.zeros(ROWS), 3)
