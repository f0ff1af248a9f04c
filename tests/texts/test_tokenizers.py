"""Tokenizers of bytes: in Python and in a graph the same, for every text."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfdml.texts import ByteTokenizer

TEXTS = ["Cat", "", "   ", " two  words ", "x" * 100, "Ärger 🚗 赤", "tab\tand\nline", "null\0byte"]


def test_bytes_plus_one_and_padding():
    assert ByteTokenizer(length=6)(["Cat", "é"]).tolist() == [[100, 98, 117, 0, 0, 0], [196, 170, 0, 0, 0, 0]]


@pytest.mark.parametrize("length", [1, 5, 64])
def test_in_a_graph_as_in_python(length):
    tokenizer = ByteTokenizer(length=length)
    found = tf.function(tokenizer.in_graph)(tf.constant(TEXTS))
    assert found.dtype == "int32" and found.shape == (len(TEXTS), length)
    np.testing.assert_array_equal(found, tokenizer(TEXTS))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=5))
def test_in_a_graph_as_in_python_for_any_text(texts):
    tokenizer = ByteTokenizer(length=8)
    np.testing.assert_array_equal(tokenizer.in_graph(tf.constant(texts)), tokenizer(texts))


def test_no_texts_and_other_things():
    tokenizer = ByteTokenizer(length=3)
    assert tokenizer([]).shape == (0, 3)
    with pytest.raises(ValueError, match=r"Received: the single text 'cat'. Pass \[text\]"):
        tokenizer("cat")
    with pytest.raises(ValueError, match="texts must be strings. Received: 3 of type int"):
        tokenizer(["cat", 3])


@pytest.mark.slow
def test_bytes_that_are_not_utf8_have_tokens():
    assert ByteTokenizer(length=2)(["\udcff"]).tolist() == [[256, 0]]
