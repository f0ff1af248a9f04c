import re
from types import SimpleNamespace

import numpy as np
import pytest

from tfdml import registry
from tfdml.run.batch_pairs import check_pairs

EIGHT_OF_EACH = np.repeat(np.arange(400), 8)


def check(sampler, loss="triplet", labels=EIGHT_OF_EACH):
    settings = SimpleNamespace(sampler=sampler, loss=loss, seed=0)
    made = registry.create("sampler", sampler)
    made.bind(labels)
    check_pairs(registry.create("loss", loss, classes=400), made, labels, settings)


@pytest.mark.parametrize("loss", ["triplet", "margin(learn_beta='one')", "proxy_nca + triplet"])
@pytest.mark.parametrize("labels", [np.arange(50), EIGHT_OF_EACH])
def test_no_positive_pair_is_an_error(loss, labels):
    sampler = "uniform(batch_size=50)" if len(labels) == 50 else "uniform(batch_size=1)"
    with pytest.raises(ValueError, match=r"None of the first 64 batches of --sampler=uniform\(.*two images of a class"):
        check(sampler, loss, labels)


def test_no_negative_pair_is_an_error():
    with pytest.raises(ValueError, match=r"--sampler=pxk\(classes=1\) has images of one class only"):
        check("pxk(classes=1)", "contrastive")


@pytest.mark.parametrize(
    "loss, right", [("contrastive(pairs='given')", "pairs"), ("proxy_nca + triplet(mining='given')", "triplets")]
)
def test_given_pairs_need_the_sampler_that_gives_them(loss, right, caplog):
    for sampler in {"pairs", "triplets", "pxk"} - {right}:
        with pytest.raises(
            ValueError, match=rf"takes only what the sampler {right} draws.*received --sampler={sampler}"
        ):
            check(sampler, loss)
    check(right, loss)


def test_one_class_of_training_rows_is_a_warning(caplog):
    check("uniform(batch_size=2)", labels=np.zeros(4))
    assert "All training images are of one class" in caplog.text


def test_few_positive_pairs_are_a_warning(caplog):
    check("uniform(batch_size=32)")
    # Of 31 others out of 3199, 7 of which are of the class, one is expected for 6.6 % of the images.
    assert re.search(r"Only [5-8]\.\d % .* --sampler=uniform\(batch_size=32\)", caplog.text)


@pytest.mark.parametrize(
    "sampler, loss",
    [
        ("pxk(classes=2, per_class=2)", "triplet"),
        ("pairs(images=32)", "contrastive"),
        ("uniform(batch_size=512)", "triplet"),
    ]
    + [(sampler, "proxy_nca") for sampler in ("uniform(batch_size=1)", "pxk(classes=1)")],
)
def test_batches_with_pairs_and_losses_without_need_are_fine(sampler, loss, caplog):
    check(sampler, loss)
    assert not caplog.text
