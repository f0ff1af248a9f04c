import numpy as np
import pytest
import tensorflow as tf

from tfdml.run.training.run_checkpoint import BadImages


def make(rows, most=3, count=9):
    mask = np.zeros(count, bool)
    mask[list(rows)] = True
    return BadImages(tf.Variable(mask), most=most, describe=lambda row: f"{row}.jpg (cut)")


def told(caplog):
    return [record.getMessage() for record in caplog.records]


def test_each_is_told_once(caplog):
    callback = make([4])
    callback.on_train_batch_end(0)
    callback.on_train_batch_end(1)
    callback.unreadable[2].assign(True)
    callback.on_train_batch_end(2)
    assert [message.split(". ")[0] for message in told(caplog)] == [
        "Cannot read 4.jpg (cut)",
        "Cannot read 2.jpg (cut)",
    ]
    assert "(2 of at most 3 unreadable images)" in told(caplog)[1]


def test_too_many_stop_the_run():
    make([1, 2, 3]).on_train_batch_end(0)
    with pytest.raises(ValueError, match=r"4 training .* --max_bad_images=3: 1.jpg \(cut\), 2.jpg .*8.jpg"):
        make([1, 2, 3, 8]).on_train_batch_end(0)


def test_a_run_that_goes_on_counts_on(caplog):
    callback = make([5, 1])
    callback.on_train_batch_end(0)
    caplog.clear()
    later = make([])
    later.set_state(callback.get_state())
    assert np.flatnonzero(later.unreadable.numpy()).tolist() == [1, 5]
    later.on_train_batch_end(0)
    assert not told(caplog)
    later.unreadable[2].assign(True)
    later.on_train_batch_end(0)
    assert len(told(caplog)) == 1 and "(3 of at most 3 unreadable images)" in told(caplog)[0]
