"""Models, runs, checkpoints, weights and specs."""

import shutil
import struct

import numpy as np

from tests.backbones.weights.published_files import caffemodel, safetensors
from tests.fuzz import damage
from tests.fuzz.hostile_texts import any_spec, change_json
from tests.fuzz.target import JSON, LINES, ZIP, Target
from tests.run_helpers import straight_run
from tests.serving_fixtures import SIZE, two_learners
from tfdml.run.tuning.state import Cost, Plan, RungScore, SearchDirectory

IMAGES = [np.full((SIZE, SIZE, 3), 40 * number, np.uint8) for number in range(4)]


def _make_model(folder):
    import tfdml

    model, _ = two_learners()
    model.preprocessing = tfdml.Preprocessing.of(model, SIZE)
    model.save(folder / "model.keras")


def _read_model(folder):
    import tfdml

    return tfdml.load(folder / "model.keras").embed(IMAGES).tobytes()


def _make_run(folder):
    shutil.copytree(straight_run(), folder / "run", ignore=shutil.ignore_patterns("tensorboard"))


def _read_run(folder):
    from tfdml.run.directory.run_record import Record

    record = Record.of(folder / "run")
    about = (record.flags(), record.changed(), record.result, record.events, record.step, record.steps())
    return about, record.run.recorded_dataset(), record.best_step("recall_at_1")


def _read_checkpoint(folder):
    from tfdml.run.directory.checkpoints import CheckpointFolder

    passed_over = []
    step, arrays, state = CheckpointFolder(folder / "run" / "checkpoints").read_newest(passed_over.append)
    if passed_over:
        raise ValueError(passed_over[0])
    return step, [(name, array.tobytes()) for name, array in arrays], state


def _make_weights(folder):
    random = np.random.default_rng(0)
    tensors = {"conv1": [random.normal(size=(2, 3, 1, 1)), random.normal(size=2)]}
    (folder / "net.caffemodel").write_bytes(caffemodel(tensors))
    (folder / "net.safetensors").write_bytes(safetensors({"conv1.weight": ("F64", tensors["conv1"][0])}))
    _small().save_weights(folder / "small.weights.h5")


def _small():
    import tfdml

    return tfdml.backbones.Small(width=8, stages=2)


def _read_weights(folder):
    from tfdml.backbones.published_weights import read_caffemodel, read_state_dict
    from tfdml.run.directory.model_files import load_weights

    several = (read_caffemodel(folder / "net.caffemodel"), read_state_dict(folder / "net.safetensors"))
    arrays = [(name, array.tobytes()) for each in several for name, array in each.items()]
    backbone = _small()
    load_weights(backbone, str(folder / "small.weights.h5"))
    return arrays, [weight.numpy().tobytes() for weight in backbone.weights]


SEARCH = {"loss": "--loss=triplet", "minutes": "--minutes=30"}


def _make_search(folder):
    with SearchDirectory(folder / "search").claimed(SEARCH) as state:
        state.seconds, state.metric, state.plan = 12.5, "recall_at_1", Plan((4, 12), 2)
        state.changes, state.rungs = (
            [{}, {"loss": "--loss=circle"}, {"image_size": "--image_size=96"}],
            [[0, 1, 2], [0]],
        )
        state.measured, state.failed = [RungScore(0, 4, 0.5, [0.4, 0.6], Cost(2.0, 0.1))], {2: "The loss is NaN."}
        SearchDirectory(folder / "search").write(state)


def _read_search(folder):
    with SearchDirectory(folder / "search").claimed(SEARCH) as state:
        return repr(state), [each.trial for each in state.ranked()]


def _make_specs(folder):
    specs = {
        "transform": "random_resized_crop(size=8, area=(0.5, 1.0))|flip|layer('RandomHue', factor=0.2)",
        "sampler": "pxk(classes=2, per_class=2)",
        "loss": "triplet(margin=0.1, mining='hard') + 0.5*contrastive",
        "backbone": "small(width=8, stages=2)",
        "head": "linear(dropout=0.3)",
        "dataset": "toycars(classes=4, images_per_class=4, image_size=24)",
        "metric": "recall_at_k(k=1)",
    }
    for kind, spec in specs.items():
        (folder / f"{kind}.spec").write_text(spec)


def _read_specs(folder):
    from tfdml import registry

    specs = {file.stem: file.read_text(errors="replace") for file in sorted(folder.iterdir())}
    for kind, spec in specs.items():
        if kind in ("dataset", "backbone"):
            registry.parse(spec)
        else:
            registry.create_chain(kind, spec) if kind == "transform" else registry.create(kind, spec)
    return sorted(specs)


def _respelt(content, random):
    return any_spec(content.decode(), random).encode("utf-8", "replace")


def _change_safetensors(content, random):
    """Changes the header, which is JSON."""
    (length,) = struct.unpack_from("<Q", content)
    header = change_json(content[8 : 8 + length], random)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


TARGETS = {
    "model": Target(_make_model, _read_model, {"*.keras": ZIP}, ("*.keras",)),
    "run": Target(
        _make_run,
        _read_run,
        {"flags.txt": LINES, "*.jsonl": LINES, "checksums.json": JSON, "result.json": JSON, "dataset.json": JSON},
        ("flags.txt", "metrics.jsonl", "result.json", "dataset.json"),
    ),
    "checkpoint": Target(
        _make_run, _read_checkpoint, {"state.json": JSON, "manifest.json": JSON, "arrays.npz": ZIP}, ("arrays.npz",)
    ),
    "weights": Target(
        _make_weights,
        _read_weights,
        {"*.caffemodel": damage.ANY, "*.safetensors": (_change_safetensors, *damage.ANY), "*.h5": damage.ANY},
    ),
    "search": Target(_make_search, _read_search, {"tune.json": JSON}),
    "specs": Target(_make_specs, _read_specs, {"*.spec": (_respelt,)}, named=False),
}
