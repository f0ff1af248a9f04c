"""Losses on Keras' PyTorch backend: as on TensorFlow."""

import pytest

from tests.losses.test_other_backend import SPECS, case, check_as_on_tensorflow, computed


@pytest.fixture(scope="module")
def on_torch():
    answer = computed("losses_on_torch.py", {"KERAS_BACKEND": "torch"}, [case(spec, gradients=True) for spec in SPECS])
    assert answer["backend"] == "torch" and "tensorflow" not in answer["modules"]
    return dict(zip(SPECS, answer["results"], strict=True))


@pytest.mark.parametrize("spec", SPECS)
def test_as_on_tensorflow(on_torch, spec):
    check_as_on_tensorflow(on_torch[spec], spec)
