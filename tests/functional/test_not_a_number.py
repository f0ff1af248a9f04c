"""What is no number stays none: a loss that hid it would let a broken run go on."""

import numpy as np
import pytest

from tfdml import registry


def test_nan_embeddings_give_nan(make_feed, loss_spec):
    loss = registry.create("loss", loss_spec)
    embeddings = np.ones((6, 4), np.float32)
    embeddings[2] = np.nan
    labels = np.repeat([0, 1], 3)
    assert np.isnan(loss(labels, make_feed(loss, dim=4)(labels, embeddings)))


@pytest.mark.parametrize("spec", ["triplet(squared=False)", "triplet(mining='batch_hard', squared=False)"])
def test_nan_embeddings_give_nan_on_plain_distances(make_feed, spec):
    test_nan_embeddings_give_nan(make_feed, spec)
