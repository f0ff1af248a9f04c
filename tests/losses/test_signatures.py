"""Every registered loss and its function have the same arguments, defaults and values."""

import ast
import inspect

import numpy as np

from tfdml import losses, registry
from tfdml.registry.fields import expected_of

# In Python arguments may stand without their names, and files keep their names: neither may change.
PROXIES = "proxies='learnt', proxy_steps=1000, proxy_rate=0.001, proxy_tolerance=0.001"
WALK = "restart=0.8, affinity='clipped', neighbors=None"
SAMPLED = "classes=None, sampled_classes=None, sampling='corrected', sharded=False"
SIGNATURES = {
    "angular": "alpha=45.0",
    "arc_face": f"scale=64.0, margin=0.5, monotonic=True, {SAMPLED}",
    "barlow_twins": "weight=0.005, projector=(1024, 1024)",
    "binomial_deviance": "alpha=2.0, beta=0.5, negative_cost=25.0",
    "circle": "margin=0.4, scale=80.0, differentiate_weights=False",
    "contextual_manifold": f"margin=0.0005, scale=1.0, {WALK}, {PROXIES}, classes=None",
    "contrastive": "margin=1.0, positive_margin=0.0, squared_positives=True, squared_negatives=False, pairs='all'",
    "cos_face": f"scale=64.0, margin=0.35, {SAMPLED}",
    "fast_ap": "bins=10",
    "histogram": "bins=100",
    "intrinsic_manifold": f"margin=0.0005, scale=1.0, {WALK}, {PROXIES}, classes=None",
    "lifted_structure": "margin=1.0, form='smooth', normalize=False",
    "manifold_n_pair": f"margin=0.0005, scale=1.0, {WALK}",
    "margin": (
        "beta=1.2, margin=0.2, learn_beta='no', nu=0.0, cutoff=0.5, nonzero_loss_cutoff=1.4, "
        "mining='distance_weighted', classes=None"
    ),
    "multi_similarity": "alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, mining=True",
    "n_pair": "margin=0.0, scale=1.0, negatives='all', normalize=False, regularization=0.0",
    "nested": "loss, dims",
    "norm_softmax": f"temperature=0.05, {SAMPLED}",
    "nt_xent": "temperature=0.1",
    "proxy_anchor": "scale=32.0, margin=0.1, classes=None",
    "proxy_n_pair": f"margin=0.0005, scale=1.0, {PROXIES}, classes=None",
    "proxy_nca": f"scale=1.0, exclude_positive=True, {SAMPLED}",
    "ranked_list": (
        "alpha=1.2, margin=0.4, positive_temperature=0.0, negative_temperature=10.0, balance=0.5, "
        "differentiate_weights=False, differentiate_gallery=False, final_negative_temperature=None"
    ),
    "ranked_list_simpler": (
        "margin=0.4, negative_temperature=10.0, differentiate_weights=False, differentiate_gallery=False, "
        "final_negative_temperature=None"
    ),
    "simsiam": "hidden=None",
    "smooth_ap": "temperature=0.01, include_query=False",
    "soft_triple": "scale=20.0, center_temperature=0.1, margin=0.01, per_class=10, merging=0.2, classes=None",
    "sub_center_arc_face": f"scale=64.0, margin=0.5, monotonic=True, per_class=3, {SAMPLED}",
    "sup_con": "temperature=0.1, form='out'",
    "threshold_consistent_margin": "positive_margin=0.9, negative_margin=0.5, positive_weight=1.0, negative_weight=1.0",
    "triplet": "margin=0.2, mining='semi_hard', squared=True, cutoff=0.5, nonzero_loss_cutoff=1.4",
    "vicreg": "invariance=25.0, variance=25.0, covariance=1.0, target=1.0, projector=(1024, 1024)",
}


def loss_classes():
    return registry.registered("loss")


def test_signatures_stay_as_they_are():
    found = {name: str(inspect.signature(loss_classes()[name])) for name in SIGNATURES}
    assert found == {name: f"({arguments}, **kwargs)" for name, arguments in SIGNATURES.items()}


def function_of(name):
    return getattr(losses, f"{name}_loss")


def test_functions_have_the_arguments_of_their_losses_and_each_is_described():
    for name, loss in loss_classes().items():
        function, arguments = function_of(name), inspect.signature(loss).parameters
        assert function.__name__ == f"{name}_loss" and function.__module__ == loss.__module__
        labels, rows, *taken = inspect.signature(function).parameters.values()
        taken = [each for each in taken if each.name != "queries"]
        assert labels.name == "labels" and rows.name in ("embeddings", "similarities")
        # What SimSiam has to be told is for its layer.
        assert taken or name == "simsiam"
        assert all(arguments[each.name].default == each.default for each in taken if each.name != "beta"), name
        section = inspect.getdoc(loss).partition("\nArgs:\n")[2]
        described = {each for line in section.splitlines() for each in line.partition(":")[0].strip().split(", ")}
        assert {*arguments, "reduction", "name", "dtype"} - {"kwargs"} <= described, name
        assert "of the above" not in section and "see there" not in section, name


def other(loss, name):
    """Another value of an argument."""
    value = getattr(loss, name)
    if isinstance(value, str):
        choices = expected_of(type(loss))[name].words.removeprefix("one of ").split(", ")
        return next(choice for choice in map(ast.literal_eval, choices) if choice != value)
    return 1 if value is None else not value if isinstance(value, bool) else value + (1 if value > 1 else 0.125)


def test_losses_compute_what_their_functions_do(make_batch, make_feed):
    for name, loss_class in loss_classes().items():
        if name in ("nested", "by_level"):
            # They make the loss that they are given; test_nested.py and test_by_level.py have their values.
            continue
        loss = loss_class(**{"classes": 7} if "classes" in inspect.signature(loss_class).parameters else {})
        labels, embeddings = make_batch(12, 4)
        taken = make_feed(loss)(labels, embeddings)
        expected = loss.call(labels, taken)
        np.testing.assert_array_equal(function_of(name)(labels, taken), expected)
        arguments = [*inspect.signature(function_of(name)).parameters][2:]
        changed = {each: other(loss, each) for each in arguments if each != "queries"}
        if name == "margin":
            # It counts only for a boundary that is learned.
            changed["nu"] = 0.0
        own = loss_class(**{**loss.get_config(), **changed})
        np.testing.assert_array_equal(function_of(name)(labels, taken, **changed), own.call(labels, taken))
