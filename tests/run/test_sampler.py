from types import SimpleNamespace

import pytest

from tfdml import registry
from tfdml.run.sampler import make_sampler


def test_a_sampler_without_the_base_class_is_told(monkeypatch):
    class Bare:
        batch_size = 4

    monkeypatch.setattr(registry, "create", lambda kind, spec: Bare())
    with pytest.raises(ValueError, match="--sampler=bare: Bare must be a subclass of pipelines.sampling.Sampler"):
        make_sampler(SimpleNamespace(sampler="bare"), None, 1)
