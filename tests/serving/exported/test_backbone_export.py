"""A pretrained backbone is exported and searched with, without any training."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from tests.commands import assert_one_error, ok, run
from tests.serving.exported.test_exported_model import write_files
from tfdml import registry
from tfdml.backbones import KerasApplication
from tfdml.console.flags import parse
from tfdml.run.training.initial_model import check_pretrained
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.exports import features_of

FLAGS = ["--backbone=small(width=16, stages=2)", "--initial_weights=toycars", "--image_size=24"]


def settings_of(*flags):
    return parse("\n".join([*FLAGS, *flags]))[0]


def test_features_have_the_preprocessing_that_flags_say():
    model = features_of(settings_of("--test_transform=warp", "--shrink_decoding", "--head=linear(pooling='gem')"))
    backbone = model.backbone
    about = model.preprocessing.get_config()
    assert (about["image_size"], about["transform"], about["shrink"]) == (24, "warp", True)
    assert (about["mean"], about["std"]) == (list(backbone.mean), list(backbone.std))
    assert model.learners_shape == (1, backbone.output.shape[-1]) and model.features.pooling.kind == "gem"
    assert features_of(parse("\n".join(FLAGS[:2]))[0]).preprocessing.image_size == backbone.image_size


def test_random_weights_are_refused():
    with pytest.raises(ValueError, match=r"small.* has random weights, .*--initial_weights: toycars, or a weights fi"):
        features_of(settings_of("--initial_weights="))
    network = dataclasses.replace(settings_of().network, backbone="mobile", initial_weights="")
    with pytest.raises(ValueError, match=r"mobile has random weights, .*--initial_weights: imagenet, or a weights"):
        check_pretrained(KerasApplication("MobileNetV2", alpha=0.35), network)


def test_a_head_that_needs_training_is_refused(monkeypatch):
    from tests.heads.test_every_head import Hidden

    monkeypatch.setitem(registry.registered("head"), "hidden", Hidden)
    with pytest.raises(ValueError, match="--head=hidden has layers with random weights, which need training"):
        features_of(settings_of("--head=hidden"))
    # One number a feature, none of them random.
    features_of(settings_of("--head=linear(norm='batch')"))


@pytest.mark.nightly
def test_similar_images_are_found_without_training(tmp_path):
    paths, out = write_files(tmp_path), tmp_path / "exported"
    done = run("tfdml.export", *FLAGS, f"--out={out}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "--initial_weights=toycars: " in done.stdout and f"Exported {FLAGS[0][11:]} to {out} (signature " in done.stdout
    )
    model, features = ExportedModel(out), features_of(settings_of())
    contents = [open(path, "rb").read() for path in paths]
    embeddings, valid = model.embed_readable(contents)
    pooled = np.mean(np.asarray(features.backbone(_prepared(features, paths))), axis=(1, 2))
    np.testing.assert_allclose(embeddings, pooled / np.linalg.norm(pooled, axis=1, keepdims=True), atol=1e-5)
    card = json.loads((out / "metadata.json").read_text())
    assert valid.all() and card["embedding"]["dimension"] == pooled.shape[1] == model.dimension
    assert (card["method"], card["weights"], card["scores"]) == ("features", "toycars, part of tfdml", {})
    assert "| trained on | not trained on any dataset: " in (out / "README.md").read_text()
    done = ok("tfdml.index", f"--model={out}", f"--images={tmp_path}/*.*", f"--out={tmp_path}/index")
    found = Searcher(tmp_path / "index").search(paths, k=1)
    assert [neighbors[0].path for neighbors in found] == paths


def _prepared(model, paths):
    from tfdml import ImageEmbedder

    return ImageEmbedder(model).prepare(paths)


@pytest.mark.nightly
def test_principal_components_are_those_of_given_images(tmp_path):
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(pixels).resize((40, 30)).save(tmp_path / f"{number}.png")
    flags = [*FLAGS, "--dims=4", "--whiten", f"--images={tmp_path}"]
    done = run("tfdml.export", *flags, f"--out={tmp_path}/out")
    assert (done.returncode, done.stderr) == (0, "")
    model = ExportedModel(tmp_path / "out")
    assert model.dimension == 4 and model.metric == "cosine"
    embeddings, _ = model.embed_readable([(tmp_path / f"{number}.png").read_bytes() for number in range(12)])
    # Whitened components are equally large, and uncorrelated but for their lengths.
    assert np.ptp(np.mean(embeddings**2, axis=0)) < 0.2
    assert f"the projection was fitted on `{tmp_path}`" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, words",
    [
        (
            ["--run_dir=runs/a", "--images=photos"],
            "--images has no effect here, because --run_dir with --backbone joins both",
        ),
        (["--backbone="], "Set --run_dir to the directory of a run, --backbone to a pretrained backbone, or both."),
        (["--which=final"], "--which has no effect here, because --backbone exports the pretrained features"),
        (["--dims=4"], "--dims and --images need each other"),
        (["--images=photos"], "--dims and --images need each other"),
        (["--initial_weights="], "has random weights, and its features are useless without training"),
        (["--dims=4", "--images=none/such"], "none/such is not a folder, a file"),
    ],
)
def test_flags_that_do_not_fit_are_one_line(flags, words, tmp_path):
    assert_one_error(run("tfdml.export", *FLAGS, f"--out={tmp_path}/out", *flags), words)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_says_how_its_images_are_prepared(tmp_path):
    done = run("tfdml.export", "--run_dir=runs/a", "--image_size=24", f"--out={tmp_path}/out")
    assert_one_error(done, "--image_size has no effect here, because --run_dir exports the trained model. Remove it.")
