"""The page for users of pytorch-metric-learning has each of its public names."""

import re
from pathlib import Path

import pytest
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers, samplers, testers, trainers
from pytorch_metric_learning.utils import inference

PAGE = Path(__file__).parents[2] / "docs" / "from_pytorch_metric_learning.md"
PACKAGES = (distances, losses, miners, reducers, regularizers, samplers, testers, trainers, inference)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_name_is_there(package):
    page = PAGE.read_text(encoding="utf-8")
    own = package.__name__
    names = [name for name, each in vars(package).items() if isinstance(each, type) and each.__module__.startswith(own)]
    assert names
    assert not [name for name in names if not re.search(rf"^\|[^|]*`{name}\b", page, re.MULTILINE)]
