"""A step of training is the same on TensorFlow, JAX and PyTorch, for every method and every loss."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.loss_specs import LOSS_SPECS, SUM_SPECS
from tests.night import others_at_night
from tfdml import registry

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STEPS = 10
# After one step, and after all steps.
TOLERANCES = {1: 1e-5, STEPS: 1e-4}
# Each backend draws random numbers in its own way, so the same seed draws other negatives and other classes.
DRAWN = ("margin", "triplet(mining='distance_weighted')")
LOSSES = [spec for name in registry.names("loss") for spec in LOSS_SPECS.get(name, [name])]
LOSSES = [spec for spec in [*LOSSES, *SUM_SPECS] if spec not in DRAWN]
METHODS = {
    "single": "single(embedding_size=8)",
    "unnormalized": "single(embedding_size=8, normalize=False)",
    "features": "features",
    "multilevel": "multilevel(embedding_size=12, endpoints=('stage2', 'stage3'), reduced=4, hidden=4)",
    "multi_head": "multi_head(embedding_size=8, learners=2, branch='stage2', divergence_weight=1.0)",
    "multi_tail": "multi_tail(embedding_size=8, learners=2, branch='stage2')",
    "attention_ensemble": "attention_ensemble(embedding_size=8, learners=2, branch='stage1', attention_depth=1)",
    "divide_and_conquer": "divide_and_conquer(embedding_size=8, learners=2)",
    "simultaneous": "divide_and_conquer(embedding_size=8, learners=2, simultaneous=True)",
}
# At the usual rate, the rounding errors of these losses grow to more than the tolerance in ten steps, also if both runs
# use TensorFlow: gradients are steep, or pairs at a threshold are mined in one run only.
STEEP = ("circle", "cos_face(classes=7)", "lifted_structure(form='generalized', mining='hdc')")
RATE, LOW_RATE = "learning_rate=0.001", "learning_rate=0.0001"
PROXIES, PAIRS = "proxy_anchor(classes=7)", "multi_similarity"


def case(method, loss, **more):
    return {"method": METHODS[method], "loss": loss, "steps": STEPS, **more}


CASES = {f"single, {loss}": case("single", loss) for loss in LOSSES}
CASES |= {f"single, {loss}": case("single", loss, optimizer=f"sgd({LOW_RATE})") for loss in STEEP}
CASES |= {f"{method}, {loss}": case(method, loss) for method in METHODS for loss in (PROXIES, PAIRS)}
CASES |= {
    "divide_and_conquer, its first learner": case("divide_and_conquer", PROXIES, learner=0),
    "divide_and_conquer, learned margins": case(
        "divide_and_conquer", "margin(learn_beta='per_class', mining='all', classes=7)", learner=1
    ),
    "divide_and_conquer with momentum": case(
        "divide_and_conquer", PROXIES, learner=1, optimizer=f"sgd({RATE}, momentum=0.9)"
    ),
    "statistics are frozen": case("single", PAIRS, freeze_batch_norm="statistics"),
    "batch norm is frozen": case("single", PAIRS, freeze_batch_norm="all"),
    "a memory": case("single", PAIRS, memory="xbm(size=32, start=2)"),
    "a memory that judges labels": case("single", PAIRS, memory="agreement(size=32, start=1, share=0.2)"),
    "a momentum encoder": case("single", PAIRS, memory="momentum(size=32, decay=0.9)"),
    "learning rates of groups": case("single", PROXIES, optimizer=f"sgd({RATE}, lr_multipliers={{'loss': 10}})"),
    "a frozen backbone": case("single", PROXIES, optimizer=f"sgd({RATE}, frozen_steps={{'backbone': 3}})"),
}
BY_DAY = "single, nested(loss='multi_similarity', dims=(1, 2, 4))"
IN_TURN = others_at_night(CASES, [BY_DAY])


@pytest.fixture(scope="module")
def answers(request, tmp_path_factory):
    """A function from a backend to the arrays of all cases that are tested, by `(case, steps)`."""
    chosen = {item.callspec.params["name"] for item in request.session.items if "answers" in item.fixturenames}
    names, known = [name for name in CASES if name in chosen], {}

    def of(backend):
        if backend not in known:
            # An error of the program fails every test, without another run.
            known[backend] = {}
            known[backend] = computed(backend, names, tmp_path_factory.mktemp(backend) / "steps.npz")
        return known[backend]

    return of


def computed(backend, names, file):
    kept = {name: value for name, value in os.environ.items() if name not in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS")}
    # Compiling takes most of the time.
    compiling = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "programs" / "steps.py", file],
        env={**kept, **compiling, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
        input=json.dumps([CASES[name] for name in names]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [backend]
    found = {}
    with np.load(file) as arrays:
        for key in arrays.files:
            number, steps, name = key.split("/")
            found.setdefault((names[int(number)], int(steps)), {})[name] = arrays[key]
    return found


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("name", IN_TURN)
def test_steps_are_those_of_tensorflow(name, backend, answers):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    first, last = (answers("tensorflow")[name, steps] for steps in TOLERANCES)
    assert max(np.abs(last[of] - first[of]).max() for of in first if of.startswith("variable")) > 1e-4
    for steps, tolerance in TOLERANCES.items():
        expected, found = (answers(each)[name, steps] for each in ("tensorflow", backend))
        assert found.keys() == expected.keys()
        # The gradient of a steep loss differs more than the weights from which it is computed.
        compared = [of for of in expected if steps == 1 or of != "gradient_norm"]
        for of in compared:
            np.testing.assert_allclose(
                found[of], expected[of], rtol=tolerance, atol=tolerance, err_msg=f"{of} after {steps} steps"
            )
