"""What several test files share."""

import gc
import os
import shutil
import tempfile

import hypothesis
import numpy as np
import pytest
from PIL import Image

from tests.night import mark_nights
from tests.run_helpers import SHARED_FOLDER, straight_run

# Read while TensorFlow is imported. Commands set it, see `tfdml.console.startup`.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# The tests run in several processes already. Read when TensorFlow first computes, also by the commands of tests.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# The same examples in each run of the tests, and none that a run before has found.
hypothesis.settings.register_profile("tests", derandomize=True, database=None)
hypothesis.settings.load_profile("tests")


def improve_graphs(wanted):
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})


def pytest_sessionstart(session):
    """Imports TensorFlow where tests run, which is not where pytest-xdist hands them out to other processes."""
    if session.config.getoption("dist", "no") != "no":
        return
    import tfdml.losses  # noqa: F401

    # Improving graphs would take a third of the time of all tests, whose functions compute little. Commands improve
    # theirs, and so do the tests that take the fixture `improved_graphs`. Of input pipelines no run improves them.
    improve_graphs(False)
    # Full collections would walk through all of TensorFlow, 0.3 s each; by default tracing starts one every few tests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Seeds what a test and its fixtures draw without a seed of their own, such as initial weights of Keras layers."""
    import keras

    keras.utils.set_random_seed(0)


# Custom gradients of traced functions that are kept within a file of tests.
MOST_GRADIENTS = 50


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Frees the graphs that tests have traced, which would add up to gigabytes."""
    from tensorflow.python.framework import ops

    # TensorFlow keeps the gradient of each custom gradient that it traces, and with the gradient the whole graph.
    registered = ops.gradient_registry._registry
    traced = [name for name in registered if name.startswith("CustomGradient-")]
    if nextitem is None or nextitem.path != item.path or len(traced) > MOST_GRADIENTS:
        for name in traced:
            del registered[name]
        gc.collect()


def pytest_generate_tests(metafunc):
    """Runs a test that takes `loss_spec` on every registered loss, and so on: see `specs_by_fixture`.

    Tests run on the first spec of each loss by day, and on its other specs at night.
    """
    from tests.loss_specs import specs_by_fixture

    # Sorted, since processes of pytest-xdist have to agree on the order of the tests.
    fixtures = {"loss_spec", "one_spec_a_loss", "pair_loss_spec", "proxy_loss_spec", "regularizer_spec"}
    for fixture in sorted(fixtures.intersection(metafunc.fixturenames)):
        by_day, night = specs_by_fixture()["one_spec_a_loss"], pytest.mark.nightly
        specs = specs_by_fixture()[fixture]
        metafunc.parametrize(fixture, [spec if spec in by_day else pytest.param(spec, marks=night) for spec in specs])


# Bytes that have to be free in memory for the files of the tests, which are less than one GiB at a time.
ENOUGH = 4 * 2**30


def pytest_configure(config):
    """Makes the folder that all processes of the tests share, in the first of them, which removes it.

    Where there is room for it in memory it is there, and so are all temporary files of the tests: on a disk they would
    wait for minutes until it has flushed. `TMPDIR=/tmp make test` keeps those of tests that fail.
    """
    if SHARED_FOLDER in os.environ:
        return
    in_memory = "TMPDIR" not in os.environ and free_bytes("/dev/shm") > ENOUGH
    folder = tempfile.mkdtemp(prefix="tfdml-tests-", dir="/dev/shm" if in_memory else None)
    os.environ[SHARED_FOLDER] = folder
    config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(SHARED_FOLDER), ignore_errors=True))
    if in_memory:
        os.environ["TMPDIR"] = tempfile.tempdir = folder


def free_bytes(folder):
    return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0


# Files that take longest come first: at the end, processes would wait for the one with such a file.
LONGEST = (
    "test_data.py",
    "test_loss_contract.py",
    "test_training.py",
    "test_loading.py",
    "test_distillation.py",
    "test_configs.py",
    "test_import.py",
    "test_docstring_examples.py",
    "test_exported_model.py",
    "test_in_browser.py",
    "test_index_object.py",
    "test_loops.py",
    "test_threshold.py",
    "test_protocols.py",
    "test_goldens.py",
    "test_upgrading.py",
    "test_kills.py",
    "test_text_search.py",
    "test_two_towers.py",
    "test_command.py",
    "test_bad_images.py",
    "test_docs.py",
    "test_cache.py",
    "test_build.py",
    "test_check.py",
    "test_commands_on_a_run.py",
    "test_ensemble.py",
    "test_small_vectors.py",
    "test_model_loading.py",
    "test_retrieval_evaluation.py",
    "test_wheel.py",
    "test_scaled_to_data.py",
    "test_initial_model.py",
    "test_runs_of_other_labels.py",
    "test_kinds_of_labels.py",
    "test_source_rules.py",
    "test_shared_passes.py",
    "test_probes.py",
    "test_preset.py",
    "test_searcher.py",
    "test_embed.py",
    "test_resume.py",
    "test_miners.py",
    "test_first_batch.py",
    "test_indexing.py",
    "test_not_a_number.py",
    "test_show.py",
    "test_single.py",
    "test_run_page.py",
    "test_keras_applications.py",
    "test_distribution.py",
    "test_objects.py",
    "test_tall_images.py",
    "test_every_sampler_within_clusters.py",
    "test_multilevel.py",
    "test_command_lines.py",
    "test_examples.py",
    "test_perfect_embedding.py",
    "test_preprocessor.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Marks the cases of the nights before pytest selects tests, and then sorts the files."""
    mark_nights(items)
    yield
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture
def improved_graphs():
    """Has TensorFlow improve the graphs of functions before they run, as it does for users."""
    improve_graphs(True)
    yield
    improve_graphs(False)


@pytest.fixture
def make_feed():
    """Function that makes of a loss the function `(labels [B], embeddings [B, d])` to what the loss takes for them."""

    def make(loss, dim=5, seed=0):
        layer = loss.make_layer()
        if layer is None:
            return lambda labels, embeddings: embeddings
        layer.build((None, dim))
        for number, weight in enumerate(layer.weights):
            start = np.random.default_rng([seed, number]).normal(size=weight.shape)
            weight.assign(start if len(weight.shape) > 1 else 1 + 0.1 * start)
        return lambda labels, embeddings: layer.call(embeddings, labels)

    return make


@pytest.fixture
def batch():
    """16 small images of four classes, and their labels."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 12, 12, 3)).astype(np.float32), np.repeat(np.arange(4), 4)


@pytest.fixture
def make_batch():
    """Function that makes `(labels [B], embeddings [B, d])`, the same for the same arguments."""

    def make(size=12, classes=4, dim=5, seed=0, dtype="float32", normalised=True):
        random = np.random.default_rng([seed, size, classes, dim])
        embeddings = random.normal(size=(size, dim))
        if normalised:
            embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        return random.integers(0, classes, size), embeddings.astype(dtype)

    return make


@pytest.fixture
def negative_shares():
    """Function that makes of an anchor's distances to its negatives the share `[negatives]` of draws that each gets.

    Distance-weighted sampling, word by word, for few dimensions.
    """

    def shares(distances, dim, cutoff=0.5, nonzero_loss_cutoff=1.4):
        limit = float("inf") if nonzero_loss_cutoff is None else nonzero_loss_cutoff
        drawn = [distance for distance in distances if distance < limit]
        weights = []
        for distance in distances:
            clipped = min(max(distance, cutoff), 2.0)
            density = clipped ** (dim - 2) * max(1 - clipped**2 / 4, 1e-6) ** ((dim - 3) / 2)
            weights.append(1.0 if not drawn else 1 / density if distance < limit else 0.0)
        return [weight / sum(weights) for weight in weights]

    return shares


@pytest.fixture
def make_similarities():
    """Function that makes `(labels [B], cosines [B, C])`, or `[B, C, n]`, the same for the same arguments."""

    def make(size=12, classes=7, per_class=None, seed=0, dtype="float32"):
        random = np.random.default_rng([seed, size, classes])
        shape = (size, classes) if per_class is None else (size, classes, per_class)
        return random.integers(0, classes, size), random.uniform(-1, 1, shape).astype(dtype)

    return make


@pytest.fixture
def write_images():
    """Function that writes `{relative path: array or size}` as image files under a folder."""

    def write(folder, files):
        for number, (name, what) in enumerate(files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 256, (*what, 3)) if isinstance(what, tuple) else what
            Image.fromarray(np.asarray(pixels, np.uint8)).save(path)
        return folder

    return write


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of images: four classes to train, three to test."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for class_folder in ("train/ant", "train/bee", "train/cat", "train/dog", "test/eel", "test/fox", "test/gnu"):
        (folder / class_folder).mkdir(parents=True)
        for number in range(4):
            pixels = random.integers(0, 256, (32, 40, 3), np.uint8)
            Image.fromarray(pixels).save(folder / class_folder / f"{number}.jpg")
    return folder


@pytest.fixture
def damaged_photos(photos, tmp_path):
    """Function that copies the photos and replaces the content of one of them."""

    def damage(name, content):
        folder = tmp_path / "photos"
        shutil.copytree(photos, folder)
        path = folder / name
        path.write_bytes(content(path.read_bytes()))
        return folder, path

    return damage


@pytest.fixture
def finished(tmp_path):
    """A copy of a complete run."""
    return shutil.copytree(straight_run(), tmp_path / "finished")
