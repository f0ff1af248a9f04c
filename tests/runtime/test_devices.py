"""Bad --devices and what cannot be combined; what works is in test_distribution.py."""

import keras
import pytest
import tensorflow as tf

from tfdml.losses import Triplet
from tfdml.methods.step.restrictions import check_compile_arguments
from tfdml.runtime.devices import is_chief, strategy_for


@pytest.mark.parametrize("devices", ["cpu", "cpu:0", "tpu:1", "gpu:-1", "gpu:two", ""])
def test_unknown_devices_are_refused(devices):
    with pytest.raises(ValueError, match="--devices must be auto"):
        strategy_for(devices)


def test_missing_gpus_are_counted():
    with pytest.raises(ValueError, match="needs 99 GPUs, but TensorFlow finds"):
        strategy_for("gpu:99")


@pytest.mark.parametrize("config", ["", "{", '{"cluster": {}}', '{"cluster": {"worker": ["a:1"]}}', "[]"])
def test_workers_need_tf_config(config, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(ValueError, match="needs the environment variable TF_CONFIG") as caught:
        strategy_for("workers")
    received = f"TF_CONFIG={config!r}" if config else "TF_CONFIG is not set"
    assert f"Received: {received}." in str(caught.value)


def test_single_process_is_chief():
    assert is_chief(tf.distribute.get_strategy())


class TwoReplicas:
    """Says that it has two replicas; real ones need a process of their own."""

    num_replicas_in_sync = 2


@pytest.mark.parametrize(
    "optimizer, options, message",
    [
        (keras.optimizers.SGD(clipnorm=1.0), {}, "clipnorm=1.0"),
        (keras.optimizers.SGD(clipvalue=1.0), {}, "clipvalue=1.0"),
        (keras.optimizers.SGD(gradient_accumulation_steps=2), {}, "gradient_accumulation_steps=2"),
        (keras.optimizers.SGD(use_ema=True), {}, "use_ema"),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), {}, "mixed_bfloat16"),
        ("sgd", {"jit_compile": True}, "jit_compile"),
        ("sgd", {"steps_per_execution": 4}, "steps_per_execution"),
    ],
)
def test_what_replicas_compute_wrong_is_refused(optimizer, options, message):
    with pytest.raises(ValueError, match=message):
        check_compile_arguments(TwoReplicas(), optimizer, Triplet(), {}, 1, options)
    check_compile_arguments(tf.distribute.get_strategy(), optimizer, Triplet(), {}, 1, options)
