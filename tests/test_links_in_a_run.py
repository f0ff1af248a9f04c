"""A run that somebody sent may have links in its folder: no command writes through them."""

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import parsed
from tfdml.callbacks.projector import write_projector_files
from tfdml.reporting import draw_attention, draw_batch
from tfdml.reporting.sheets import Sheet, save_chart
from tfdml.run.directory.model_files import save_model
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.loggers import MLflowLogger, RunLog, write_hparams


@pytest.fixture
def precious(tmp_path):
    """A file beside the run, which `linked` leads to."""
    path = tmp_path / "precious"
    path.write_bytes(b"mine")
    return path


def chart(folder):
    save_chart(Figure(figsize=(1, 1)), folder / "recall.png")


def sheet(folder):
    Sheet(8, 8).save(folder / "neighbors.png")


def attention(folder):
    draw_attention(np.zeros((1, 8, 8, 3), np.uint8), np.zeros((1, 1, 2, 2, 3)), folder / "attention.png")


def batch(folder):
    draw_batch(np.zeros((1, 8, 8, 3), np.uint8), np.array([0]), {}, folder / "batch.png", title="a batch")


def projector(folder):
    columns = {"label": [0, 1], "name": ["ant", "bee"]}
    write_projector_files(folder, {"embeddings": np.eye(2)}, columns, [np.zeros((8, 8, 3), np.uint8)] * 2)


def model(folder):
    save_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), folder / "model.keras")


@pytest.mark.parametrize(
    "write, name",
    [
        (chart, "recall.png"),
        (chart, "recall.svg"),
        (sheet, "neighbors.png"),
        (attention, "attention.png"),
        (batch, "batch.png"),
        (projector, "projector/metadata.tsv"),
        (projector, "projector/sprite.png"),
        (projector, "projector/embeddings.bytes"),
        (projector, "projector_config.pbtxt"),
        (model, ".writing-model.keras"),
        (lambda folder: MLflowLogger(RunDirectory(folder)).keep_number("7"), "logger.json"),
    ],
)
def test_no_file_is_written_through_a_link(tmp_path, precious, write, name):
    link = tmp_path / "sent" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    write(tmp_path / "sent")
    assert precious.read_bytes() == b"mine" and not link.is_symlink()
    assert link.is_file() or name.startswith(".writing-")


def test_no_event_is_appended_through_a_link(tmp_path, precious):
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/metrics.jsonl").symlink_to(precious)
    log = RunLog(tmp_path / "sent")
    # It goes on with a log of which there is no whole line.
    log.set_state({"events": 3})
    log._events = 3
    with pytest.raises(ValueError, match=r"sent/metrics.jsonl is a link, which may lead to any file. Do not use it\.$"):
        log.write("train", 1, {"loss": 0.5})
    assert precious.read_bytes() == b"mine"


FOLDERS = {
    "report": lambda run: run.report,
    "checkpoints": lambda run: run.has_checkpoint,
    "tensorboard": lambda run: RunLog(run.path),
    "tensorboard/projector": lambda run: projector(run.tensorboard),
    "tensorboard/report": lambda run: run.tensorboard_of("report"),
    "tensorboard/hparams": lambda run: write_hparams(run, {"step": 1}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_a_link_is_refused(tmp_path, name):
    sent, outside = tmp_path / "sent", tmp_path / "outside"
    outside.mkdir()
    run_directory = RunDirectory(sent)
    run_directory.claim(parsed()[1])
    (sent / name).parent.mkdir(exist_ok=True)
    (sent / name).symlink_to(outside)
    with pytest.raises(
        ValueError, match=rf"^{sent}/{name} is a link that leads out of the (run|folder) .*\. Do not use this \w+\.$"
    ):
        FOLDERS[name](run_directory)
    assert not any(outside.iterdir())


@pytest.mark.parametrize("name, more", [("report", []), ("tensorboard/report", ["--only=training"])])
def test_a_report_does_not_leave_the_run(finished, tmp_path, name, more):
    outside = tmp_path / "outside"
    outside.mkdir()
    (finished / name).symlink_to(outside)
    assert_one_error(
        run("tfdml.report", f"--run_dir={finished}", *more), f"{finished}/{name} is a link that leads out of the"
    )
    assert not any(outside.iterdir())


@pytest.mark.slow
def test_links_where_a_report_writes_are_replaced(finished, precious):
    names = ["report/training.png", "report/training.svg"]
    (finished / "report").mkdir()
    for name in names:
        (finished / name).symlink_to(precious)
    ok("tfdml.report", f"--run_dir={finished}", "--only=training")
    assert precious.read_bytes() == b"mine" and not any((finished / name).is_symlink() for name in names)


@pytest.mark.nightly
def test_nothing_unfinished_is_written_through_a_link(finished, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / ".writing-exported").symlink_to(outside)
    ok("tfdml.export", f"--run_dir={finished}", f"--out={tmp_path / 'exported'}")
    assert not any(outside.iterdir()) and (tmp_path / "exported/saved_model.pb").is_file()
