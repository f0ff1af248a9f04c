"""The projector's files, read by TensorBoard's own projector plugin."""

import io
import json
from types import MappingProxyType

import keras
import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from werkzeug import test as werkzeug_test
from werkzeug import wrappers

from tfdml.callbacks import projector
from tfdml.callbacks.projector import Projector, write_projector_files


def served(log_dir, route, **query):
    """Returns the answer of TensorBoard to its projector page."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(log_dir))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(log_dir))
    plugin = ProjectorPlugin(base_plugin.TBContext(logdir=str(log_dir), data_provider=provider))
    handler = plugin.get_plugin_apps()[route]
    client = werkzeug_test.Client(wrappers.Request.application(lambda request: handler), wrappers.Response)
    answer = client.get(route, query_string={"run": ".", "name": "embeddings", **query})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_data()


@pytest.fixture
def written(tmp_path):
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(7, 5)).astype(np.float32)
    columns = {"label": range(7), "name": [f"class\t{row}\nof\t\tseven é" for row in range(7)]}
    thumbnails = [np.full((8, 8, 3), 30 * row, np.uint8) for row in range(7)]
    write_projector_files(tmp_path, {"embeddings": embeddings, "half": embeddings[:, :2]}, columns, thumbnails)
    return tmp_path, embeddings


def test_tensorboard_reads_the_embeddings(written):
    log_dir, embeddings = written
    config = json.loads(served(log_dir, "/info"))
    assert config["embeddings"][0]["tensorShape"] == [7, 5]
    tensor = np.frombuffer(served(log_dir, "/tensor"), np.float32).reshape(7, 5)
    np.testing.assert_array_equal(tensor, embeddings)
    assert [each["tensorName"] for each in config["embeddings"]] == ["embeddings", "half"]
    half = np.frombuffer(served(log_dir, "/tensor", name="half"), np.float32).reshape(7, 2)
    np.testing.assert_array_equal(half, embeddings[:, :2])


def test_tensorboard_reads_the_labels(written):
    lines = served(written[0], "/metadata").decode().splitlines()
    assert lines[0] == "label\tname"
    assert lines[3] == "2\tclass 2 of seven é"
    assert len(lines) == 8


def test_tensorboard_reads_the_thumbnails(written):
    config = json.loads(served(written[0], "/info"))
    assert config["embeddings"][0]["sprite"]["singleImageDim"] == [8, 8]
    sprite = np.asarray(Image.open(io.BytesIO(served(written[0], "/sprite_image"))))
    assert sprite.shape == (24, 24, 3)
    for row in range(7):
        top, left = row // 3 * 8, row % 3 * 8
        assert (sprite[top : top + 8, left : left + 8] == 30 * row).all()


def test_callback_writes_a_seeded_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(projector, "MOST_POINTS", 4)
    monkeypatch.setattr(projector, "MOST_SPRITE_PIXELS", 8)
    images = np.arange(1, 7, dtype=np.float32).reshape(6, 1)
    model = keras.Sequential([keras.layers.Identity()])

    def write(folder, seed):
        def thumbnail(row):
            return np.full((10, 10, 3), row, np.uint8)

        callback = Projector(folder, images, labels=range(6), thumbnail=thumbnail, class_names={2: "two"}, seed=seed)
        callback.set_model(model)
        callback.on_train_end()
        return np.fromfile(folder / "projector" / "embeddings.bytes", np.float32) - 1

    rows = write(tmp_path / "a", seed=1)
    assert len(rows) == 4 and len(set(rows)) == 4
    np.testing.assert_array_equal(rows, write(tmp_path / "b", seed=1))
    assert any(not np.array_equal(rows, write(tmp_path / f"c{seed}", seed=seed)) for seed in range(2, 5))
    lines = (tmp_path / "a" / "projector" / "metadata.tsv").read_text().splitlines()[1:]
    assert [int(line.split("\t")[0]) for line in lines] == list(rows)
    assert all(line.startswith("2\ttwo\t") == line.startswith("2") for line in lines)
    sprite = np.asarray(Image.open(tmp_path / "a" / "projector" / "sprite.png"))
    assert sprite.shape == (8, 8, 3)
    assert sprite[0, 0, 0] == rows[0] and sprite[7, 7, 0] == rows[3]


@pytest.mark.parametrize("class_names", [{5: "five"}, MappingProxyType({5: "five"}), np.array([""] * 5 + ["five"])])
def test_labels_may_have_a_second_axis(tmp_path, class_names):
    Projector(tmp_path, None, [[3], [3], [5]], class_names=class_names).write(np.eye(3))
    lines = (tmp_path / "projector/metadata.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [["3", ""], ["3", ""], ["5", "five"]]


@pytest.mark.parametrize(
    "images, more, message",
    [
        (np.zeros((4, 8, 8, 3)), {}, "one label per image. Received: 4 images and 3 labels"),
        (None, {"names": ["a.jpg"]}, "names must have one value per image. Expected 3 values. Received: 1"),
        (None, {"clusters": [0, 1, 2, 3]}, "clusters must have one value per image. Expected 3 values. Received: 4"),
    ],
)
def test_what_does_not_belong_together_is_told_before_training(tmp_path, images, more, message):
    with pytest.raises(ValueError, match=message):
        Projector(tmp_path, images, [0, 0, 1], **more)


def test_it_tells_what_is_right_and_which_learner_sees_it(tmp_path):
    """Two classes; learner 0 tells images 0 and 1 from the others, learner 1 images 2 and 3; image 4 is wrong."""
    alike, apart = np.array([[1, 0.1], [1, -0.1]]), np.array([[1, 0], [0, 1.0]])
    first = np.concatenate([alike, apart, [[1, 0]]])
    second = np.concatenate([apart, alike, [[1, 0]]])
    labels = [0, 0, 1, 1, 2]
    names = [f"{row}.jpg" for row in range(5)]
    projector = Projector(tmp_path, None, labels, learners=2, names=names, clusters=[9, 8, 7, 6, 5])
    projector.write(np.concatenate([first, second], axis=1))
    lines = [line.split("\t") for line in (tmp_path / "projector/metadata.tsv").read_text().splitlines()]
    assert lines[0] == ["label", "name", "nearest", "best_learner", "cluster", "image"]
    assert [line[3] for line in lines[1:5]] == ["0", "0", "1", "1"] and lines[5][2] == "wrong"
    assert [line[4] for line in lines[1:]] == ["9", "8", "7", "6", "5"]
    assert [line[5] for line in lines[1:]] == names
    learner = np.fromfile(tmp_path / "projector/learner_1.bytes", np.float32).reshape(5, 2)
    np.testing.assert_allclose(learner, second / np.linalg.norm(second, axis=1, keepdims=True), atol=1e-6)
