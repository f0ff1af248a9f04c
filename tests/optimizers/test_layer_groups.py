"""Optimizers with layer groups against Keras' own, one for each group."""

import contextlib

import keras
import numpy as np
import pytest

from tfdml import registry
from tfdml.optimizers import SGD, Adam, AdamW

STEPS = 6
OURS = {keras.optimizers.SGD: SGD, keras.optimizers.Adam: Adam, keras.optimizers.AdamW: AdamW}
EVERY_KIND = pytest.mark.parametrize(
    "kind, arguments",
    [
        (keras.optimizers.SGD, {"learning_rate": 0.1}),
        (keras.optimizers.SGD, {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        (keras.optimizers.Adam, {"learning_rate": 0.01, "amsgrad": True}),
        (keras.optimizers.Adam, {"learning_rate": 0.01, "weight_decay": 0.2}),
        (keras.optimizers.AdamW, {"learning_rate": 0.01, "weight_decay": 0.3}),
    ],
)


def make_variables():
    """A backbone's kernel, scale and bias, the head's kernel, and proxies."""
    rng = np.random.default_rng(0)
    shapes = {
        "stage1_conv/kernel": (3, 4),
        "stage1_norm/gamma": (4,),
        "attention/bias": (2, 3),
        "single/embedding/kernel": (4, 2),
        "proxies/proxies": (5, 2),
    }
    variables = {}
    for path, shape in shapes.items():
        *layers, name = path.split("/")
        with contextlib.ExitStack() as scopes:
            for layer in layers:
                scopes.enter_context(keras.name_scope(layer))
            variables[path] = keras.Variable(rng.normal(size=shape), name=name)
        assert variables[path].path == path
    return variables


def gradients_of(variables, step):
    rng = np.random.default_rng(100 + step)
    return [np.asarray(rng.normal(size=variable.shape), "float32") for variable in variables]


def take_steps(optimizer, variables, steps=range(STEPS), gradients=gradients_of, only=None):
    """Applies the steps' gradients, of all variables or of those named; the rest have an optimizer of their own."""
    chosen = list(only or variables)
    for step in steps:
        every = dict(zip(variables, gradients(variables.values(), step), strict=True))
        pairs = [(keras.ops.convert_to_tensor(every[name]), variables[name]) for name in chosen]
        optimizer.apply(*map(list, zip(*pairs, strict=True)))
    return {name: variables[name].numpy() for name in chosen}


def assert_equal(found, expected, **tolerance):
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(
            np.asarray(value), expected[name], err_msg=name, **{"rtol": 0, "atol": 0, **tolerance}
        )


@EVERY_KIND
def test_without_groups_every_bit_is_keras(kind, arguments):
    found = take_steps(OURS[kind](**arguments), make_variables())
    assert_equal(found, take_steps(kind(**arguments), make_variables()))


@EVERY_KIND
def test_a_group_takes_the_steps_of_an_optimizer_of_its_own(kind, arguments):
    """The weight decay of a group is scaled by its factor, too."""
    factors = {"embedding": 10, "prox*": 3.0, "stage1_norm": 0.5}
    found = take_steps(OURS[kind](**arguments, lr_multipliers=factors), make_variables())
    names = {
        10: ["single/embedding/kernel"],
        3: ["proxies/proxies"],
        0.5: ["stage1_norm/gamma"],
        1: ["stage1_conv/kernel", "attention/bias"],
    }
    expected = {}
    for factor, group in names.items():
        alone = kind(**{**arguments, "learning_rate": arguments["learning_rate"] * factor})
        expected.update(take_steps(alone, make_variables(), only=group))
    assert_equal(found, {name: expected[name] for name in found}, rtol=1e-5, atol=1e-6)


@EVERY_KIND
def test_factors_hold_under_a_schedule(kind, arguments):
    rates = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.1, 0.02])
    found = take_steps(OURS[kind](**{**arguments, "learning_rate": rates}, lr_multipliers={"*": 10}), make_variables())
    larger = keras.optimizers.schedules.PiecewiseConstantDecay([2], [1.0, 0.2])
    expected = take_steps(kind(**{**arguments, "learning_rate": larger}), make_variables())
    assert_equal(found, expected, rtol=1e-5, atol=1e-6)


@EVERY_KIND
def test_factor_0_freezes(kind, arguments):
    variables = make_variables()
    before = variables["stage1_conv/kernel"].numpy()
    optimizer = OURS[kind](**arguments, lr_multipliers={"stage1_conv": 0})
    take_steps(optimizer, variables)
    np.testing.assert_array_equal(variables["stage1_conv/kernel"], before)
    slots = [variable for variable in optimizer.variables if "stage1_conv" in variable.path]
    assert not any(np.any(slot.numpy()) for slot in slots)


@EVERY_KIND
def test_what_was_frozen_begins_as_a_new_optimizer_would(kind, arguments):
    """Not with moments of nothing under the bias correction of many steps, whose first steps are too large."""
    frozen, group = 4, ["stage1_conv/kernel", "stage1_norm/gamma"]
    optimizer = OURS[kind](**arguments, frozen_steps={"stage1_*": frozen})
    variables, untouched = make_variables(), make_variables()
    take_steps(optimizer, variables, range(frozen))
    for name in group:
        np.testing.assert_array_equal(variables[name], untouched[name])
    found = take_steps(optimizer, variables, range(frozen, frozen + STEPS))
    later = take_steps(kind(**arguments), make_variables(), range(frozen, frozen + STEPS), only=group)
    others = [name for name in variables if name not in group]
    always = take_steps(kind(**arguments), make_variables(), range(frozen + STEPS), only=others)
    assert_equal({name: found[name] for name in group}, later, rtol=1e-4, atol=1e-5)
    assert_equal({name: found[name] for name in others}, always)


@pytest.mark.parametrize("kind, arguments", [(keras.optimizers.SGD, {"momentum": 0.9}), (keras.optimizers.AdamW, {})])
def test_biases_and_norms_can_be_left_out_of_the_decay(kind, arguments):
    arguments = {"learning_rate": 0.1, "weight_decay": 0.3, **arguments}
    found = take_steps(OURS[kind](**arguments, decay_biases_and_norms=False), make_variables())
    variables = make_variables()
    excluding = kind(**arguments)
    excluding.exclude_from_weight_decay([variables["stage1_norm/gamma"], variables["attention/bias"]])
    assert_equal(found, take_steps(excluding, variables))


def test_what_keras_is_told_to_leave_out_is_left_out():
    arguments = {"learning_rate": 0.1, "weight_decay": 0.3}
    results = []
    for optimizer in (SGD(**arguments), keras.optimizers.SGD(**arguments)):
        optimizer.exclude_from_weight_decay(var_names=["kernel"])
        results.append(take_steps(optimizer, make_variables()))
    assert_equal(*results)


@pytest.mark.parametrize("kind, arguments", [(keras.optimizers.SGD, {"momentum": 0.9}), (keras.optimizers.Adam, {})])
def test_l2_is_part_of_the_gradient(kind, arguments):
    def with_l2(variables, step):
        plain = gradients_of(variables, step)
        return [gradient + 0.3 * value.numpy() for gradient, value in zip(plain, variables, strict=True)]

    arguments = {"learning_rate": 0.1, **arguments}
    found = take_steps(OURS[kind](**arguments, weight_decay=0.3, l2=True), make_variables())
    expected = take_steps(kind(**arguments), make_variables(), gradients=with_l2)
    assert_equal(found, expected, rtol=1e-5, atol=1e-6)


def test_l2_waits_while_a_group_is_frozen():
    optimizer = Adam(0.1, weight_decay=0.3, l2=True, frozen_steps={"*": STEPS})
    found = take_steps(optimizer, make_variables())
    assert_equal(found, {name: variable.numpy() for name, variable in make_variables().items()})
    slots = [variable for variable in optimizer.variables if "momentum" in variable.path]
    assert slots and not any(np.any(slot.numpy()) for slot in slots)


@pytest.mark.parametrize("frozen", [{"lr_multipliers": {"proxies": 0}}, {"frozen_steps": {"proxies": 9}}])
def test_clipping_does_not_count_what_is_frozen(frozen):
    names = [name for name in make_variables() if "proxies" not in name]
    found = take_steps(SGD(0.1, global_clipnorm=0.01, **frozen), make_variables())
    expected = take_steps(keras.optimizers.SGD(0.1, global_clipnorm=0.01), make_variables(), only=names)
    assert_equal({name: found[name] for name in names}, expected, rtol=1e-6)


def test_the_last_of_several_groups_counts():
    variables = make_variables()
    before = variables["stage1_norm/gamma"].numpy()
    (gradient,) = [gradients_of(variables.values(), 0)[1]]
    take_steps(SGD(0.1, lr_multipliers={"*": 0, "stage1_*": 5, "gamma": 2}), variables, range(1))
    np.testing.assert_allclose(variables["stage1_norm/gamma"], before - 0.1 * 2 * gradient, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ({"lr_multipliers": {"embeding": 10}}, ["'embeding'", "Did you mean 'embedding'?", "stage1_conv, stage1_norm"]),
        ({"frozen_steps": {"backbone": 10}}, ["No trainable variable", "'backbone'"]),
        (
            {"lr_multipliers": {"stage1_norm": 1, "stage1_*": 2}},
            ["'stage1_norm'", "also belong to later groups", "larger group first"],
        ),
    ],
)
def test_groups_without_variables_are_named(arguments, parts):
    with pytest.raises(ValueError) as error:
        SGD(**arguments).build(list(make_variables().values()))
    for part in parts:
        assert part in str(error.value)


def test_a_group_of_the_model_without_variables_is_named():
    """As of a loss without proxies."""
    optimizer = SGD(lr_multipliers={"loss": 10})
    optimizer.name_groups(lambda: {"loss": []})
    with pytest.raises(ValueError, match="The layer group 'loss' of this model has no trainable variables"):
        optimizer.build(list(make_variables().values()))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"lr_multipliers": {"embedding": -1}},
            "layer groups to numbers of 0 or more. Received: lr_multipliers={'embedding': -1}",
        ),
        (
            {"lr_multipliers": {"embedding": float("nan")}},
            "numbers of 0 or more. Received: .*={'embedding': nan}",
        ),
        ({"lr_multipliers": {"embedding": "10"}}, "Received: lr_multipliers={'embedding': '10'}"),
        ({"lr_multipliers": ("embedding", 10)}, "dictionary"),
        ({"frozen_steps": {"embedding": 1.5}}, "to integers of 0 or more.*1.5"),
        ({"frozen_steps": {"embedding": -1}}, "to integers of 0 or more.*-1"),
    ],
)
def test_values_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Adam(**arguments)


def test_specs_take_keras_arguments_and_ours():
    optimizer = registry.create("optimizer", "adamw(learning_rate=0.1, beta_1=0.5, lr_multipliers={'embedding': 10})")
    assert isinstance(optimizer, AdamW)
    assert optimizer.beta_1 == 0.5 and optimizer.get_config()["lr_multipliers"] == {"embedding": 10}
    with pytest.raises(ValueError, match="has no argument 'beta'.*Did you mean 'beta_.*frozen_steps"):
        registry.create("optimizer", "adam(beta=0.5)")


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_config_holds_every_argument(kind):
    own = {
        "lr_multipliers": {"embedding": 10.0},
        "frozen_steps": {"conv": 3},
        "decay_biases_and_norms": False,
        "l2": True,
    }
    optimizer = kind(0.1, weight_decay=0.2, **own)
    written = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(written)
    assert type(again) is kind and again.get_config() == optimizer.get_config()
    assert {name: again.get_config()[name] for name in own} == own
