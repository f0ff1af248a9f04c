"""Metrics against pytorch-metric-learning's AccuracyCalculator.

Differences of definition: theirs breaks ties at random, ours against the model; so there are no ties here. Their NMI is
scikit-learn's of their own K-means, which starts elsewhere; here both get the same clusters.
"""

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of

OURS = {
    "precision_at_1": "recall_at_1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map_at_r",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
}


@pytest.mark.parametrize("noise", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("classes", [5, 60])
def test_equals_the_accuracy_calculator(classes, noise):
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, 300)
    embeddings = random.normal(size=(classes, 16))[labels] + noise * random.normal(size=(300, 16))
    unit = torch.nn.functional.normalize(torch.tensor(embeddings))
    calculator = AccuracyCalculator(include=tuple(OURS), k=299, device=torch.device("cpu"))
    theirs = calculator.get_accuracy(unit, torch.tensor(labels))
    ours = evaluate(embeddings, labels, tuple(OURS.values()))
    assert {name: ours[OURS[name]] for name in OURS} == pytest.approx({name: theirs[name] for name in OURS}, abs=1e-6)


@pytest.mark.parametrize("theirs, ours", [("NMI", "nmi"), ("AMI", "ami")])
def test_equals_their_scores_of_clusters(theirs, ours):
    random = np.random.default_rng(0)
    labels = random.integers(0, 9, 200)
    clusters = np.where(random.random(200) < 0.5, labels, random.integers(0, 9, 200))
    calculator = AccuracyCalculator(include=(theirs,), device=torch.device("cpu"))
    found = getattr(calculator, f"calculate_{theirs}")(torch.tensor(labels), torch.tensor(clusters))
    assert metric_of(ours).value(labels, clusters) == pytest.approx(found, abs=1e-6)
