"""Datasets that are packed into shards."""

import dataclasses
import json
import shutil
import tarfile
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines import packing
from pipelines.build import evaluation_batches, training_batches
from pipelines.dataset import Dataset
from pipelines.datasets import Split, load
from pipelines.preprocessor import Preprocessor
from pipelines.reading.unreadable import find_unreadable, verify
from pipelines.sampling import PxK
from pipelines.stored import PackedImages
from tests.commands import assert_one_error, run
from tests.pipelines.tiny_datasets import write_cub
from tfdml.files.checked import LOCK, locked

PREPARE = Preprocessor("random_crop|flip", image_size=12, mean=(0, 0, 0), std=(1, 1, 1))


@pytest.fixture
def birds(tmp_path):
    """A dataset of files, with boxes and class names."""
    write_cub(tmp_path)
    return load("cub200(cropped=True)", data_dir=str(tmp_path))


@pytest.fixture
def folder(birds, tmp_path):
    packing.pack(birds, tmp_path / "packed", images=4)
    return tmp_path / "packed"


def read(folder):
    return load("packed", data_dir=str(folder))


def batches(split, **options):
    sampler = PxK(2, 2)
    sampler.bind(split.labels)
    step = tf.Variable(0, dtype=tf.int64)
    dataset = training_batches(split, sampler, PREPARE, seed=3, step=step, steps_per_epoch=40, **options)
    return list(dataset.as_numpy_iterator())


def test_the_same_dataset_comes_back(birds, folder):
    packed = read(folder)
    assert (packed.name, packed.protocol) == (birds.name, birds.protocol)
    for part, split in birds.splits().items():
        found = packed.splits()[part]
        assert found.class_names == {label: split.class_names[label] for label in found.class_names}
        assert found.encoded and len(found.images) == len(split)
        np.testing.assert_array_equal(found.labels, split.labels)
        np.testing.assert_array_equal(found.boxes, split.boxes)
        assert found.images.tolist() == [open(path, "rb").read() for path in split.images]


def test_columns_keep_their_types(tmp_path):
    marks = np.arange(6) % 2 == 0
    columns = {"cameras": np.arange(6, dtype=np.int32), "groups": np.arange(6), "is_query": marks, "is_gallery": ~marks}
    people = Split(np.array([b"image"] * 6, object), np.array([-1, -1, 3, 3, 4, 4]), **columns)
    packing.pack(Dataset("people", None, people, protocol="query_gallery(junk=-1)"), tmp_path / "people", images=4)
    found = load("packed", data_dir=str(tmp_path / "people"), test_only=True).test
    for name in ("labels", *columns):
        assert getattr(found, name).dtype == getattr(people, name).dtype
        np.testing.assert_array_equal(getattr(found, name), getattr(people, name))


def test_captions_and_levels_are_kept(tmp_path):
    captions = np.empty(6, object)
    captions[:] = [(f"a cup {row}", "ein Krug")[: 1 + row % 2] for row in range(6)]
    levels = {"kind": {0: "mug", 1: "cup"}, "make": {0: "ours"}}
    things = Split(np.array([b"image"] * 6, object), np.arange(6) // 3, levels=levels, captions=captions)
    packing.pack(Dataset("things", None, things), tmp_path / "things", images=4)
    found = load("packed", data_dir=str(tmp_path / "things"), test_only=True).test
    assert found.captions.tolist() == captions.tolist() and found.levels == levels and found.class_names is None
    changed = dataclasses.replace(things, captions=captions[::-1])
    with pytest.raises(ValueError, match="contains shards of another dataset"):
        packing.pack(Dataset("things", None, changed), tmp_path / "things", images=4)


@pytest.mark.nightly
def test_batches_are_the_same_bits(birds, folder):
    packed = read(folder)
    for one, other in zip(batches(birds.train), batches(packed.train), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    plain = Preprocessor("warp", image_size=12, mean=(0, 0, 0), std=(1, 1, 1))
    for tolerant in (False, True):
        one, other = (
            np.concatenate(list(evaluation_batches(each.test, plain, batch_size=5, tolerant=tolerant)))
            for each in (birds, packed)
        )
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("tolerant", [False, True])
def test_keras_does_not_warn_that_data_ran_out(folder, tolerant):
    plain = Preprocessor("warp", image_size=12, mean=(0, 0, 0), std=(1, 1, 1))
    batches = evaluation_batches(read(folder).test, plain, batch_size=5, tolerant=tolerant)
    assert batches.cardinality() == -(-len(read(folder).test) // 5) > 1
    model = keras.Sequential([keras.layers.GlobalAveragePooling2D()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.predict(batches, verbose=0)) == 5 * batches.cardinality()


def test_rows_can_be_chosen(folder):
    split = read(folder).train
    rows = np.array([4, 0])
    assert isinstance(split.where(rows).images, PackedImages)
    assert split.where(rows).images.tolist() == [split.images[4], split.images[0]]
    held = read(folder).hold_out(0.5, seed=0)
    assert sum(map(len, held)) == len(split)


def test_shards_are_tar_files(folder):
    split = read(folder).train
    with tarfile.open(folder / "train-00001.tar") as tar:
        members = tar.getmembers()
        assert [tar.extractfile(member).read() for member in members] == split.images[4:8].tolist()
        assert members[0].name == "000000004.jpg"


@pytest.mark.parametrize("outside", ["../{name}", "{folder}/{name}"])
def test_shards_outside_of_the_folder_are_refused(folder, tmp_path, outside):
    shutil.copytree(folder, tmp_path / "inner" / "sent")
    sent = tmp_path / "inner" / "sent" / packing.MANIFEST
    for file in folder.glob("train-00001.*"):
        shutil.copy(file, tmp_path / "inner" / file.name)
    name = outside.format(folder=folder, name="train-00001")
    sent.write_text(sent.read_text().replace('"train-00001"', json.dumps(name)))
    with pytest.raises(ValueError, match=f"names '{name}', which is not a shard in this folder. Do not use"):
        read(sent.parent)


def test_packing_goes_on_where_it_stopped(birds, folder, tmp_path, monkeypatch):
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    stopped, written = tmp_path / "stopped", []
    write = packing._write_shard

    def fails(folder, shard, split):
        written.append(shard.name)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        return write(folder, shard, split)

    monkeypatch.setattr(packing, "_write_shard", fails)
    with pytest.raises(OSError, match="No space left on device. Repeat the command to continue"):
        packing.pack(birds, stopped, images=4)
    with pytest.raises(ValueError, match="is not a packed tfdml dataset, because it has no manifest.json"):
        read(stopped)
    packing.pack(birds, stopped, images=4)
    assert written.count("train-00000") == 1
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == whole


def test_a_disk_that_is_full_leaves_nothing_half_written(birds, tmp_path, monkeypatch):
    def full(file, *_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packing, "_write_records", full)
    with pytest.raises(OSError, match="No space left"):
        packing.pack(birds, tmp_path / "full", images=4)
    assert {path.name for path in (tmp_path / "full").iterdir()} == {packing.PLAN, LOCK}


def test_a_name_that_is_not_utf8_is_told(birds, tmp_path):
    named = np.array(["/a/b\udcff.jpg"], object)
    train = dataclasses.replace(birds.train.where([0]), images=named)
    with pytest.raises(ValueError, match=r"The file name b'/a/b\\xff.jpg' is not valid UTF-8. Rename the file."):
        packing.pack(dataclasses.replace(birds, train=train), tmp_path / "packed", images=4)


def test_a_folder_that_is_not_local_is_refused(birds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="--out=gs://bucket/packed is not on a file system of this machine"):
        packing.pack(birds, "gs://bucket/packed", images=4)
    assert not (tmp_path / "gs:").exists()


def test_two_commands_do_not_pack_into_one_folder(birds, folder):
    with locked(folder, "packed dataset"), pytest.raises(ValueError, match="Another process is changing the packed"):
        packing.pack(birds, folder, images=4)
    packing.pack(birds, folder, images=4)


@pytest.mark.parametrize("images", [5, 4])
def test_another_folder_is_refused(birds, folder, images):
    if images == 5:
        with pytest.raises(ValueError, match="other --shard_images"):
            packing.pack(birds, folder, images=5)
    else:
        (folder / packing.PLAN).unlink()
        with pytest.raises(ValueError, match="is not empty"):
            packing.pack(birds, folder, images=4)


def test_a_shard_that_is_cut_off_is_refused(folder):
    path = folder / "train-00000.tar"
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(ValueError, match=r"train-00000.tar is damaged: it has [\d,]+ bytes but was written with"):
        read(folder)
    path.unlink()
    with pytest.raises(ValueError, match="train-00000.tar is missing"):
        read(folder)


def forget(folder, name):
    """Removes a file of a shard, whose entry in the plan is damaged, too."""
    (folder / name).unlink()
    plan = json.loads((folder / packing.PLAN).read_text())
    plan["shards"][Path(name).stem] = None
    (folder / packing.PLAN).write_text(json.dumps(plan))


@pytest.mark.parametrize("name", ["train-00000.tar", "test-00000.parquet"])
def test_packing_again_writes_damaged_shards_anew(birds, folder, name):
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    flipped = bytearray(whole[name])
    flipped[700] ^= 1
    for damage in (
        lambda: (folder / name).write_bytes(whole[name][:700]),
        lambda: (folder / name).write_bytes(flipped),
        lambda: (folder / name).unlink(),
        lambda: forget(folder, name),
    ):
        damage()
        packing.pack(birds, folder, images=4)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole


def test_a_table_that_changed_is_refused(folder):
    path = folder / "test-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="test-00000.parquet is damaged"):
        read(folder)


def test_a_record_that_changed_is_told(folder):
    split = read(folder).train
    path, offset = folder / "train-00000.tar", int(split.images.places.offset[2])
    content = bytearray(path.read_bytes())
    content[offset + 5] ^= 1
    path.write_bytes(content)
    row, reason = find_unreadable(split)
    assert row == 2 and f"train-00000.tar is damaged at byte {offset:,}" in reason
    verdicts = verify(split, min_side=1, threads=1, on_rows=lambda count: None)
    assert "is damaged at byte" in verdicts[2].reason and verdicts[1].reason is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="is damaged at byte"):
        batches(split)


def test_a_command_packs(tmp_path):
    write_cub(tmp_path)
    given = [f"--data_dir={tmp_path}", f"--out={tmp_path / 'packed'}"]
    done = run("pipelines.pack", "--dataset=cub200(cropped=True)", *given)
    assert done.returncode == 0 and "Packed 12 images" in done.stdout
    assert len(read(tmp_path / "packed").train) == 6
    assert_one_error(run("pipelines.pack", "--dataset=cub200", f"--data_dir={tmp_path}"), "--out is missing")


def test_images_for_evaluation_alone(tmp_path, birds):
    alone = type(birds)("birds", None, birds.test)
    packing.pack(alone, tmp_path / "alone", images=100)
    registered = packing.MANIFEST in {path.name for path in (tmp_path / "alone").iterdir()}
    assert registered and load("packed", data_dir=str(tmp_path / "alone"), test_only=True).train is None


def test_a_path_of_gfile(birds, folder, monkeypatch):
    """TensorFlow's file system in memory stands for one that is far away."""
    far = f"ram://{folder.name}"
    tf.io.gfile.makedirs(far)
    for file in folder.iterdir():
        tf.io.gfile.copy(str(file), f"{far}/{file.name}", overwrite=True)
    packed = load(f"packed(path='{far}')")
    for part, split in birds.splits().items():
        assert packed.splits()[part].images.tolist() == [open(path, "rb").read() for path in split.images]
    plain = Preprocessor("warp", image_size=12, mean=(0, 0, 0), std=(1, 1, 1))
    one, other = (next(iter(evaluation_batches(each.test, plain, batch_size=5))) for each in (birds, packed))
    np.testing.assert_array_equal(one, other)
    tf.io.gfile.remove(f"{far}/train-00000.tar")
    with pytest.raises(ValueError, match="train-00000.tar is missing"):
        load(f"packed(path='{far}')")
    tf.io.gfile.remove(f"{far}/manifest.json")
    with pytest.raises(ValueError, match=f"{far} is not a packed tfdml dataset, because it has no manifest.json"):
        load(f"packed(path='{far}')")
