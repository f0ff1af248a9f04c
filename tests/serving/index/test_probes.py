"""An index recognizes another export of its model by its probes, and refuses another model with the difference."""

import base64
import json
import shutil

import keras
import numpy as np
import pytest

from tests.serving_fixtures import exported, exported_tolerant, picture, two_learners
from tfdml.files.checked import write_record
from tfdml.serving import ExportedModel, Searcher, export
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import compact_index, delete_images, index_images, upgrade_index
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.probes import COUNT, FILE
from tfdml.serving.index.threshold import threshold_for
from tfdml.serving.model_card import METADATA, VERSION

IMAGES = 40


@pytest.fixture(scope="module", autouse=True)
def models_load_once():
    """Models with other weights are loaded here, so none is shared with other tests."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    for row in range(IMAGES):
        (folder / f"{row:02d}.png").write_bytes(picture(row))
    (folder / "00.png").write_bytes(b"not an image")
    index_images(folder / "index", ImageList.of(str(folder)), model=exported())
    return folder / "index"


@pytest.fixture
def index(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "index")


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Exports of models whose weights differ by rounding, and by more; by the scale of the change."""
    model, preprocessor = two_learners()
    before, found = model.get_weights(), {}
    random = np.random.default_rng(0)
    noise = [random.normal(size=each.shape) * np.std(each) for each in before]
    try:
        for scale in (1e-5, 0.1):
            model.set_weights([each + scale * change for each, change in zip(before, noise, strict=True)])
            found[scale] = str(tmp_path_factory.mktemp("changed") / "1")
            export(model, preprocessor, found[scale])
    finally:
        model.set_weights(before)
    return found


def probes(index):
    return json.loads((index / FILE).read_text())


def test_an_index_keeps_some_images_with_their_vectors(whole):
    kept = probes(whole)["images"]
    assert len(kept) == COUNT and set(kept) <= set(IndexFolder(whole).read_rows(IndexFolder(whole).manifest()).paths)
    contents, vectors = ([base64.b64decode(each[name]) for each in kept.values()] for name in ("image", "vector"))
    found, _ = ExportedModel(exported()).embed_readable(contents)
    np.testing.assert_allclose(np.stack([np.frombuffer(each, "<f4") for each in vectors]), found, atol=1e-6)


@pytest.mark.nightly
def test_another_export_of_the_model_is_accepted(index, changed):
    other = exported_tolerant()
    assert model_hash(other) != model_hash(exported())
    for model in (other, changed[1e-5]):
        searcher = Searcher(index, model)
        assert searcher.model_digest == model_hash(model) != searcher.manifest["model"]
        found = searcher.search([picture(3)], k=1)
        assert found[0][0].path.endswith("03.png")
    assert Searcher(index).model_digest == model_hash(exported())


@pytest.mark.nightly
def test_another_model_is_refused_with_the_difference(index, changed):
    with pytest.raises(ValueError, match=r"made with another model, so the embeddings cannot be compared") as error:
        Searcher(index, changed[0.1])
    (share,) = [float(word) for word in str(error.value).split("up to ")[1].split()[:1]]
    own, other = (ExportedModel(each).embed_readable([picture(3)])[0] for each in (exported(), changed[0.1]))
    assert 0.002 < share < 2 and np.linalg.norm(own - other) < 4 * share
    assert f"Its vectors of {COUNT} images in the index differ" in str(error.value)
    assert f"python -m tfdml.index --upgrade --model={changed[0.1]} --out={index}" in str(error.value)


def test_without_probes_only_the_model_itself_is_accepted(index):
    (index / FILE).unlink()
    with pytest.raises(ValueError, match="made with another model, so the embeddings cannot be compared.$"):
        Searcher(index, exported_tolerant())
    assert len(Searcher(index, exported())) == IMAGES - 1


def test_the_own_copy_must_not_change_at_all(index):
    """A copy with other files is not run, even if it would embed equally."""
    shutil.rmtree(index / "model")
    shutil.copytree(exported_tolerant(), index / "model")
    with pytest.raises(ValueError, match="was made with another model"):
        Searcher(index)


@pytest.mark.parametrize("damage", [b"{", b'{"format": "probes of a tfdml index", "version": 1, "images": {"a": {}}}'])
def test_damaged_probes_are_reported(index, damage):
    (index / FILE).write_bytes(damage)
    with pytest.raises(ValueError, match=r"probes.json is damaged: .*Remove it."):
        Searcher(index, exported_tolerant())


@pytest.mark.parametrize("compact", [True, False])
def test_deleted_images_are_no_longer_kept(index, compact):
    path = next(iter(probes(index)["images"]))
    delete_images(index, [path], compact=compact)
    assert path not in probes(index)["images"] and len(probes(index)["images"]) == COUNT - 1
    if not compact:
        compact_index(index)
    Searcher(index, exported_tolerant())
    (index.parent / "new.png").write_bytes(picture(99))
    images = ImageList([str(index.parent / "new.png")], [None])
    index_images(index, images, add=True)
    assert len(probes(index)["images"]) == COUNT and path not in probes(index)["images"]


@pytest.mark.nightly
def test_an_upgrade_replaces_the_vectors(index, changed):
    upgrade_index(index, changed[0.1])
    assert probes(index)["model"] == model_hash(changed[0.1])
    Searcher(index, changed[0.1])
    with pytest.raises(ValueError, match="differ by up to"):
        Searcher(index, exported())


def test_the_threshold_of_the_other_export_is_used(index, tmp_path):
    model = shutil.copytree(exported_tolerant(), tmp_path / "model")
    fitted = {"threshold": 0.5, "false_accept_rate": 0.001, "precision": 0.9, "distance": "cosine", "far": 0.001}
    facts = {"version": VERSION, "embedding": {"metric": "cosine"}, "sha256": model_hash(model), "threshold": fitted}
    write_record(model / METADATA, facts)
    assert threshold_for(Searcher(index, str(model))).value == 0.5


@pytest.mark.nightly
def test_a_model_with_other_dimensions_is_refused(index, tmp_path):
    _, preprocessor = two_learners()
    model = keras.Sequential([keras.Input((24, 24, 3)), keras.layers.GlobalAveragePooling2D()])
    export(model, preprocessor, tmp_path / "small")
    with pytest.raises(ValueError, match="differ by up to inf of their length"):
        Searcher(index, str(tmp_path / "small"))
