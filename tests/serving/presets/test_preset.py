"""A preset brings back a model with its preprocessing, from a folder or a hub, and tells damage."""

import hashlib
import json
import re
import shutil
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml

import tfdml
from tests.commands import assert_one_error, run
from tests.night import others_at_night
from tests.run_helpers import result, straight_run
from tests.serving_fixtures import picture
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.serving import presets
from tfdml.serving.embedders import embedder_of
from tfdml.serving.exports import facts_of_run
from tfdml.serving.presets import FILES, write_preset


def hugging_face(folder, calls):
    """Stands for `huggingface_hub`; its cache holds links to files, as the client's own."""
    folder = Path(folder)

    def create_repo(repo_id, exist_ok):
        calls.append(("create_repo", repo_id, exist_ok))

    def upload_folder(repo_id, folder_path, allow_patterns):
        copied(folder_path, folder / "blobs" / repo_id, allow_patterns)

    def snapshot_download(repo_id, revision, allow_patterns):
        calls.append(("snapshot_download", repo_id, revision))
        blobs, snapshot = folder / "blobs" / repo_id, folder / "snapshots" / repo_id
        if not blobs.is_dir():
            raise OSError(f"404 Client Error.\n\nRepository Not Found for {repo_id}.")
        snapshot.mkdir(parents=True, exist_ok=True)
        for name in allow_patterns:
            if not (snapshot / name).exists():
                (snapshot / name).symlink_to(blobs / name)
        return str(snapshot)

    return types.SimpleNamespace(
        create_repo=create_repo, upload_folder=upload_folder, snapshot_download=snapshot_download
    )


def kaggle(folder, calls):
    """Stands for `kagglehub`."""
    folder = Path(folder)

    def model_upload(handle, local_model_dir, ignore_patterns):
        names = [path.name for path in Path(local_model_dir).iterdir() if path.name not in ignore_patterns]
        copied(local_model_dir, folder / handle, names)

    def model_download(handle):
        calls.append(("model_download", handle))
        return str(folder / handle)

    return types.SimpleNamespace(model_upload=model_upload, model_download=model_download)


def copied(source, target, names):
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(Path(source) / name, target / name)


IMAGES = [picture(0), picture(1, 24, 60, "JPEG")]
METHODS = [
    "single",
    "single(normalize=False)",
    "attention_ensemble(learners=2, branch='stage1', attention_depth=1)",
    "multi_head(learners=2, branch='stage1')",
    "multi_tail(learners=2, branch='stage1')",
    "divide_and_conquer(learners=2)",
    "multilevel(endpoints=('stage1', 'stage2'), reduced=4, hidden=8)",
    "features",
]
# One learner, and several of networks of their own.
BY_DAY = (METHODS[0], METHODS[2])


def made(method="single"):
    keras.utils.set_random_seed(0)
    backbone = tfdml.backbones.Small(width=8, stages=2)
    sizes = {} if method == "features" else {"embedding_size": 16}
    model = tfdml.registry.create("method", method, backbone=backbone, **sizes)
    model.preprocessing = tfdml.Preprocessing.of(model, 24, transform="resize_short(size=30)|center_crop")
    return model


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "cars"
    tfdml.save_preset(made(), folder, license="apache-2.0")
    return folder


@pytest.fixture(scope="module")
def embedded(preset):
    """The embeddings by the preset."""
    return tfdml.from_preset(preset).embed(IMAGES)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The calls of both clients, which keep what is uploaded."""
    calls = []
    monkeypatch.setitem(sys.modules, "huggingface_hub", hugging_face(tmp_path / "hf", calls))
    monkeypatch.setitem(sys.modules, "kagglehub", kaggle(tmp_path / "kaggle", calls))
    return calls


@pytest.mark.parametrize("method", others_at_night(METHODS, BY_DAY))
def test_every_method_comes_back_with_its_preprocessing(method, tmp_path):
    model = made(method)
    tfdml.save_preset(model, tmp_path / "preset")
    loaded = tfdml.from_preset(tmp_path / "preset")
    assert type(loaded.model) is type(model) and loaded.preprocessing == model.preprocessing
    # Called, since `embed` would trace both; the tests of one method below embed.
    pixels = np.random.default_rng(0).uniform(-1, 1, (2, 24, 24, 3)).astype(np.float32)
    np.testing.assert_array_equal(loaded.model(pixels), model(pixels))
    assert sorted(path.name for path in (tmp_path / "preset").iterdir()) == sorted(FILES)


def test_the_manifest_says_what_programs_need(preset):
    found = json.loads((preset / "config.json").read_text())
    content = (preset / "model.keras").read_bytes()
    assert found["files"] == {"model.keras": {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    assert (found["format"], found["version"], found["class"]) == ("tfdml preset", 1, "Single")
    assert found["embedding"] | {"learner_dimension": 16, "projection": ""} == found["embedding"]
    assert (found["embedding"]["dimension"], found["embedding"]["metric"]) == (16, "cosine")
    assert found["images"]["image_size"] == 24 and found["versions"]["tfdml"] == tfdml.__version__


def front_matter(preset):
    return yaml.safe_load(re.match(r"---\n(.*?\n)---\n\n# ", (preset / "README.md").read_text(), re.DOTALL)[1])


def test_the_card_has_what_hubs_read(preset):
    found = front_matter(preset)
    assert (found["library_name"], found["pipeline_tag"]) == ("tfdml", "image-feature-extraction")
    assert found["license"] == "apache-2.0" and "keras" in found["tags"] and "model-index" not in found
    assert "| embedding | 16 dimensions, compared by cosine similarity |" in (preset / "README.md").read_text()


@pytest.mark.nightly
def test_a_compiled_model_is_saved_without_its_optimizer_and_loss(tmp_path, preset):
    model = made()
    model.compile("adam", tfdml.losses.ProxyAnchor(classes=50))
    images = np.random.default_rng(0).uniform(-1, 1, (8, 24, 24, 3)).astype(np.float32)
    model.fit(images, np.repeat(np.arange(4), 2), verbose=0)
    tfdml.save_preset(model, tmp_path / "compiled")
    loaded = tfdml.from_preset(tmp_path / "compiled")
    np.testing.assert_allclose(loaded.embed(IMAGES), tfdml.ImageEmbedder(model).embed(IMAGES), atol=1e-6)
    sizes = [(folder / "model.keras").stat().st_size for folder in (tmp_path / "compiled", preset)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_a_model_without_preprocessing_is_no_preset(tmp_path):
    model = made()
    model.preprocessing = None
    with pytest.raises(ValueError, match=r"has no preprocessing\. Set model\.preprocessing before saving"):
        tfdml.save_preset(model, tmp_path / "preset")
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_keras_is_no_preset(tmp_path):
    with pytest.raises(
        ValueError, match=r"model must be a tfdml model, such as tfdml\.Single\. Received: Sequential\."
    ):
        tfdml.save_preset(keras.Sequential(), tmp_path / "preset")


@pytest.mark.nightly
@pytest.mark.parametrize("address", ["hf://owner/cars", "hf://owner/cars@v1.2", "kaggle://owner/cars/keras/small"])
def test_a_preset_comes_back_from_a_hub(address, preset, embedded, hub):
    tfdml.upload_preset(address.partition("@")[0], preset)
    loaded = tfdml.from_preset(address)
    np.testing.assert_array_equal(loaded.embed(IMAGES), embedded)
    assert loaded.source == address
    downloads = {"h": ("snapshot_download", "owner/cars", "v1.2" if "@" in address else None)}
    assert hub[-1] == downloads.get(address[0], ("model_download", "owner/cars/keras/small"))
    # As `--model` of tfdml.evaluate takes it.
    for model in (address, str(preset)):
        assert embedder_of(model).source == model


def test_only_the_files_of_a_preset_are_uploaded(preset, hub, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(preset, folder)
    (folder / "secret.txt").write_text("")
    tfdml.upload_preset("hf://owner/cars", folder)
    tfdml.upload_preset("kaggle://owner/cars/keras/small", folder)
    assert hub == [("create_repo", "owner/cars", True)]
    for there in ("hf/blobs/owner/cars", "kaggle/owner/cars/keras/small"):
        assert sorted(path.name for path in (tmp_path / there).iterdir()) == sorted(FILES)


def damaged(preset, folder):
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes((preset / name).read_bytes())
    content = bytearray((preset / "model.keras").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.keras").write_bytes(content)
    return folder, hashlib.sha256(content).hexdigest()


def test_damage_is_told_with_its_checksum(preset, tmp_path, hub):
    folder, found = damaged(preset, tmp_path / "damaged")
    expected = json.loads((preset / "config.json").read_text())["files"]["model.keras"]["sha256"]
    told = f"model.keras is damaged: its SHA-256 is {found}, but config.json states {expected}"
    with pytest.raises(ValueError, match=told):
        tfdml.from_preset(folder)
    with pytest.raises(ValueError, match=told):
        tfdml.upload_preset("hf://owner/cars", folder)
    assert hub == []


def test_a_folder_that_is_no_preset(tmp_path, preset):
    with pytest.raises(ValueError, match=r"is not a tfdml preset, because it has no config\.json"):
        tfdml.from_preset(tmp_path)
    with pytest.raises(ValueError, match=r"none is not a tfdml preset, because it does not exist"):
        tfdml.from_preset(tmp_path / "none")
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ValueError, match=r"config\.json is not the manifest of a tfdml preset"):
        tfdml.from_preset(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "tfdml preset", "version": 1, "files": {}}')
    with pytest.raises(ValueError, match=r"config\.json is damaged: the checksum of model\.keras is missing"):
        tfdml.from_preset(tmp_path)
    (tmp_path / "config.json").write_bytes((preset / "config.json").read_bytes())
    with pytest.raises(ValueError, match=r"model\.keras is missing. Download or save the preset again"):
        tfdml.from_preset(tmp_path)
    (tmp_path / "model.keras").symlink_to(preset / "model.keras")
    with pytest.raises(ValueError, match=r"model\.keras is a link, which may lead out of the preset"):
        tfdml.from_preset(tmp_path)


@pytest.mark.parametrize(
    "address, told",
    [
        ("s3://bucket/cars", "s3://bucket/cars starts with an unknown scheme. Expected a folder, hf://owner/name"),
        ("hf://cars", "hf://cars is not a complete address. Expected a folder, hf://owner/name"),
        ("kaggle://owner/cars", "kaggle://owner/cars is not a complete address"),
        ("hf://owner/../cars", "is not a complete address"),
        ("hf://owner/none", "hf://owner/none cannot be downloaded: 404 Client Error. Repository Not Found for owner/n"),
    ],
)
def test_an_address_that_leads_nowhere(address, told, hub):
    with pytest.raises((ValueError, OSError), match=told) as caught:
        tfdml.from_preset(address)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address, told",
    [
        ("folder", "must be hf://owner/name or kaggle://owner/model/keras/variation. Received: folder"),
        ("hf://owner/cars@v1", "hf://owner/cars@v1 names a version. Remove the version"),
        ("kaggle://owner/cars/keras/small/3", "names a version. Remove the version"),
    ],
)
def test_an_address_to_which_nothing_can_be_uploaded(address, told, hub, preset):
    with pytest.raises(ValueError, match=told):
        tfdml.upload_preset(address, preset)


@pytest.mark.parametrize(
    "address, client", [("hf://owner/cars", "huggingface_hub"), ("kaggle://owner/cars/keras/small", "kagglehub")]
)
def test_a_client_that_is_not_installed(address, client, monkeypatch, preset):
    monkeypatch.setitem(sys.modules, client, None)
    for use in (lambda: tfdml.from_preset(address), lambda: tfdml.upload_preset(address, preset)):
        with pytest.raises(ImportError, match=rf"^{address} needs {client}: pip install 'tfdml\[share\]'\.$"):
            use()


@pytest.mark.slow
def test_the_card_of_a_run_has_its_scores_with_intervals(tmp_path):
    model = tfdml.load(straight_run()).model
    write_preset(model, tmp_path / "cars", facts_of_run(RunDirectory(straight_run()), "best", model))
    best, intervals = result(straight_run())["best"], result(straight_run())["intervals"]
    (index,) = front_matter(tmp_path / "cars")["model-index"]
    (found,) = index["results"]
    assert found["dataset"]["type"] == "toycars" and found["dataset"]["name"].startswith("toycars(classes=16")
    metrics = {each["type"]: each for each in found["metrics"]}
    assert metrics["recall_at_1"]["value"] == best["recall_at_1"]
    assert metrics["recall_at_1"]["args"]["interval_95"] == intervals["recall_at_1"]
    low, high = intervals["recall_at_1"]
    text = (tmp_path / "cars" / "README.md").read_text()
    assert f"| recall_at_1 | {best['recall_at_1']:.4f} (95% CI: {low:.4f} to {high:.4f}) |" in text
    assert "| trained on | `toycars(classes=16" in text and "| license | not stated |" in text


@pytest.mark.nightly
def test_a_run_is_uploaded_with_its_address_in_the_card(tmp_path, hub, monkeypatch):
    # Which would make this process deterministic.
    monkeypatch.setattr(presets, "trained_model", lambda run, which, _: tfdml.load(run, model=which).model)
    presets.share_run(straight_run(), "final", tmp_path / "cars", upload="hf://owner/cars")
    assert 'tfdml.from_preset("hf://owner/cars")' in (tmp_path / "cars" / "README.md").read_text()
    expected = tfdml.load(straight_run(), model="final").embed(IMAGES)
    np.testing.assert_array_equal(tfdml.from_preset("hf://owner/cars").embed(IMAGES), expected)


def test_the_old_spelling_of_license_is_accepted(tmp_path):
    tfdml.save_preset(made(), tmp_path / "preset", licence="mit")
    assert front_matter(tmp_path / "preset")["license"] == "mit"


def test_the_old_spelling_of_the_flag_license_is_accepted_but_not_shown():
    done = run("tfdml.share", "--licence=mit", "--run_dir=none", "--out=")
    assert_one_error(done, "--out is missing. Set it to the folder for the preset.")
    shown = run("tfdml.share", "--help").stdout
    assert "--license=" in shown and "licence" not in shown


@pytest.mark.slow
def test_the_command_shares_a_run(tmp_path):
    out = tmp_path / "cars"
    done = run("tfdml.share", f"--run_dir={straight_run()}", f"--out={out}", "--license=mit")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Saved the preset to {out}. Load it with tfdml.from_preset('{out}').\n"
    expected = tfdml.load(straight_run()).embed(IMAGES)
    np.testing.assert_array_equal(tfdml.from_preset(out).embed(IMAGES), expected)
    assert front_matter(out)["license"] == "mit"
    again = run("tfdml.share", f"--run_dir={straight_run()}", f"--out={out}")
    assert_one_error(again, f"{out} exists and is not empty. Use a new folder.")
    for flags, told in (
        ([f"--run_dir={straight_run()}"], "--out is missing. Set it to the folder for the preset."),
        ([f"--out={tmp_path}/new"], "--run_dir is missing. Set it to"),
        ([f"--out={tmp_path}/new", "--upload=cars"], "must be hf://owner/name or kaggle://owner/model/keras/variation"),
    ):
        assert_one_error(run("tfdml.share", *flags), told)
    assert [path.name for path in tmp_path.iterdir()] == ["cars"]
