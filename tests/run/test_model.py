"""The backbone of a run declares what it takes."""

import types

import keras
import pytest

from tfdml import registry
from tfdml.run.model import make_backbone


def test_a_network_that_declares_nothing_is_an_error(monkeypatch):
    monkeypatch.setitem(registry.registered("backbone"), "own", lambda: keras.Sequential())
    with pytest.raises(ValueError, match="--backbone=own: Sequential must be a tfdml.backbones.Backbone, .*mean="):
        make_backbone(types.SimpleNamespace(backbone="own"))
