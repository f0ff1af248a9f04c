import numpy as np
import pytest

from pipelines.sampling import Views
from tests.pipelines.sampling.test_sampling import batches, bound


@pytest.mark.parametrize("images, rows", [(4, 4), (4, 30), (7, 30), (29, 30)])
def test_each_image_comes_twice_and_all_once_before_any_again(images, rows):
    drawn = batches(bound(Views(images), np.arange(rows)), range(60))
    np.testing.assert_array_equal(drawn[:, :images], drawn[:, images:])
    times = np.zeros(rows, int)
    for batch in drawn[:, :images]:
        assert len(set(batch)) == images
        np.add.at(times, batch, 1)
        assert np.ptp(times) <= 1


def test_a_batch_depends_on_seed_and_step_alone():
    sampler = bound(Views(4), np.arange(30))
    whole = batches(sampler, range(20))
    np.testing.assert_array_equal(batches(sampler, [7, 3]), whole[[7, 3]])
    assert np.any(batches(sampler, range(20), seed=4) != whole)


@pytest.mark.parametrize("images, message", [(31, "needs that many training rows, there are 30"), (1, "2 or more")])
def test_too_few_images_are_told(images, message):
    with pytest.raises(ValueError, match=message):
        bound(Views(images), np.arange(30))
