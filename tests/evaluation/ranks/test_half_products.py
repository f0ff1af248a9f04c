"""Which processors multiply in half precision."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from tfdml.evaluation.ranks import counts, half_counts


@pytest.fixture
def is_fast(monkeypatch, tmp_path):
    """Asks of a processor that has the right instructions."""
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512_bf16 avx512f\n")
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    monkeypatch.setattr(half_counts, "gpus", list)
    monkeypatch.setattr(half_counts, "CPU_FILE", str(tmp_path / "cpuinfo"))
    return half_counts.half_products_are_fast.__wrapped__


def test_processors_with_the_instructions_are_fast(is_fast, tmp_path):
    assert is_fast()
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512f\n")
    assert not is_fast()


def test_gpus_unknown_systems_and_those_without_onednn_use_float32(is_fast, monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not is_fast()
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    monkeypatch.setattr(half_counts, "gpus", lambda: ["/GPU:0"])
    assert not is_fast()
    monkeypatch.setattr(half_counts, "gpus", list)
    assert is_fast()
    monkeypatch.setattr(half_counts, "CPU_FILE", "no such file")
    assert not is_fast()


def test_sums_in_bfloat16_are_noticed(is_fast, monkeypatch):
    assert is_fast()
    monkeypatch.setattr(tf, "matmul", lambda *args, **options: tf.fill([64, 64], tf.cast(256, tf.bfloat16)))
    assert not is_fast()


def test_tensorflow_is_used_where_it_is_loaded_or_worth_it(monkeypatch):
    vectors = np.zeros((40, 8), np.float32)
    assert counts.may_use_tensorflow(vectors)
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert not counts.may_use_tensorflow(vectors)
    monkeypatch.setattr(counts, "MANY", 40 * 40 * 8)
    assert counts.may_use_tensorflow(vectors) and not counts.may_use_tensorflow(vectors[:39])
