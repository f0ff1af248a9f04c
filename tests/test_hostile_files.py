"""Small files that stand for gigabytes, and files that never end, are refused by name before they are read."""

import io
import os
import socket
import tracemalloc
import zipfile

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from pipelines.dataset import read_list
from pipelines.datasets import load
from pipelines.datasets.published import unpack
from pipelines.labels import read_class_groups
from pipelines.reading.cache import rows_on_disk
from pipelines.stored import read_part
from tests.commands import assert_one_error, run
from tests.run_helpers import parsed
from tfdml.backbones import Small
from tfdml.backbones.published_weights import read_caffemodel, read_state_dict
from tfdml.console.flags import expanded
from tfdml.files import embeddings as embeddings_module
from tfdml.files.checked import ALWAYS_ALLOWED, read_manifest
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.files.shards import MOST_TEXT, read_columns, values_of
from tfdml.run import loading
from tfdml.run.directory.model_archive import damage_of
from tfdml.run.directory.model_files import load_weights
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.serving.image_list import read_image_table
from tfdml.serving.index.contact_sheet import _tile

LONG = "x" * 2**20


@pytest.fixture
def nothing_is_unpacked(monkeypatch):
    """Fails a test in which a member of a zip file is read."""
    whole = zipfile.ZipFile.open

    def opened(self, name, mode="r", **more):
        return whole(self, name, mode, **more) if mode == "w" else pytest.fail(f"read {name}")

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)


def bomb(path, name, size=3 * 2**30):
    """A zip file that declares a member of this size, which is not there."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(10**6))
    content = path.read_bytes()
    declared = (10**6).to_bytes(4, "little")
    assert content.count(declared) == 2
    path.write_bytes(content.replace(declared, size.to_bytes(4, "little")))
    return path


@pytest.mark.parametrize("member", ["model.weights.h5", "config.json", "assets/more"])
def test_a_model_that_would_fill_memory_is_refused_before_it_is_unpacked(tmp_path, member, nothing_is_unpacked):
    path = bomb(tmp_path / "model.keras", member)
    with pytest.raises(ValueError, match=f"^{path} is not a Keras model or is damaged: it would be unpacked from"):
        loading.load(path)
    run = RunDirectory(tmp_path)
    run.claim(parsed()[1])
    with pytest.raises(ValueError, match=f"^{path} is damaged: it would be unpacked from"):
        run.model_file("best")


def test_many_members_that_each_are_small_are_counted_together(tmp_path, nothing_is_unpacked):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(9):
            member = zipfile.ZipInfo(f"assets/{number}")
            member.file_size, member.compress_size, member.header_offset = ALWAYS_ALLOWED // 8, 1, 0
            member.CRC = 0
            archive.filelist.append(member)
        archive._didModify = True
    assert "it would be unpacked from 9 bytes" in damage_of(path)


def test_weights_that_declare_more_than_they_hold_are_refused(tmp_path):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("vars/0", shape=(2**29,), dtype="f4", chunks=(2**20,), compression="gzip")
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("model.weights.h5", content.getvalue())
    assert "to 2,147,483,648, which is more than models" in damage_of(tmp_path / "model.keras")


def test_arrays_that_would_fill_memory_are_refused_before_they_are_unpacked(tmp_path, nothing_is_unpacked):
    path = bomb(tmp_path / "x.npz", "embeddings.npy")
    with pytest.raises(ValueError, match=f"^{path} cannot be read: it would be unpacked from"):
        EmbeddingFiles.read(str(path))


def test_a_dataset_that_would_fill_the_disk_is_refused_before_it_is_unpacked(tmp_path, nothing_is_unpacked):
    path = bomb(tmp_path / "birds.zip", "birds/zeros")
    with pytest.raises(ValueError, match=f"^The archive {path} is not safe to unpack, because it contains more than"):
        unpack(path, tmp_path / "birds")


def test_models_that_shrink_a_little_are_read(tmp_path):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["vars/0"] = np.zeros(10**6)
    with zipfile.ZipFile(tmp_path / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", content.getvalue())
    assert damage_of(tmp_path / "model.keras") is None


def write_table(file, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return str(file)


def repeated(text, rows):
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(rows, np.int32)), pyarrow.array([text]))


@pytest.mark.parametrize("make", [repeated, lambda text, rows: [text] * 3], ids=["one for all", "one for each"])
def test_labels_and_paths_of_a_megabyte_are_refused_by_name(tmp_path, make):
    """Decoded, those of a file of a few kilobytes would take 100 GB."""
    labels = make(LONG, 100_000)
    embeddings = pyarrow.array([[1.0]] * len(labels))
    path = write_table(tmp_path / "embeddings.parquet", embeddings=embeddings, labels=labels)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: a string has 1,048,576 bytes, but at most 65,536"):
        EmbeddingFiles.read(path)
    path = write_table(tmp_path / "table.parquet", path=[f"{row}.jpg" for row in range(len(labels))], label=labels)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: a string has 1,048,576 bytes"):
        read_image_table(path)


def test_equal_texts_are_in_memory_once(tmp_path):
    path = write_table(tmp_path / "table.parquet", label=repeated("x" * 60_000, 100_000))
    values = values_of(read_columns(path)["label"])
    assert len(values) == 100_000 and len(set(map(id, values))) == 1


def read_and_measured(path):
    """What a file of embeddings has, and the bytes that were in memory at once."""
    tracemalloc.start()
    found = EmbeddingFiles.read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


def test_a_long_label_makes_no_other_longer(tmp_path):
    labels = [f"class {row // 2}" for row in range(2000)]
    labels[:2] = ["x" * MOST_TEXT] * 2
    path = write_table(tmp_path / "x.parquet", embeddings=[[1.0]] * 2000, labels=labels)
    found, peak = read_and_measured(path)
    # As texts of NumPy they take half a gigabyte.
    assert peak < 2**24
    assert [found.class_names[number] for number in found.labels.tolist()] == labels


@pytest.mark.parametrize("column, kind", [("labels", "S"), ("labels", "U"), ("cameras", "U")])
def test_texts_of_numpy_may_be_as_long_as_others(tmp_path, column, kind):
    def write(longest):
        texts = np.array(["x" * longest, "y"]).astype(kind)
        np.savez_compressed(tmp_path / "x.npz", **{"embeddings": np.eye(2), "labels": [0, 1], column: texts})
        return EmbeddingFiles.read(str(tmp_path / "x.npz"))

    assert getattr(write(MOST_TEXT), column).tolist() == [0, 1]
    with pytest.raises(ValueError, match=f"x.npz: a string in {column} has 65,537 characters. At most 65,536"):
        write(MOST_TEXT + 1)


def test_a_long_label_of_numpy_is_copied_once(tmp_path):
    labels = np.array([b"x" * MOST_TEXT, *[b"y"] * 500])
    np.savez_compressed(tmp_path / "x.npz", embeddings=np.ones((501, 1)), labels=labels)
    found, peak = read_and_measured(str(tmp_path / "x.npz"))
    # As texts with four bytes for each character they take more than four times as much, and are copied.
    assert peak < 2.5 * labels.nbytes
    assert found.class_names == {0: "x" * MOST_TEXT, 1: "y"} and found.labels.tolist() == [0, *[1] * 500]


def test_columns_without_memory_for_them_are_told(tmp_path, monkeypatch):
    def without_memory(*_):
        raise MemoryError

    monkeypatch.setattr(embeddings_module, "_typed", without_memory)
    np.savez(tmp_path / "x.npz", embeddings=np.eye(2), labels=[0, 1], cameras=[0, 1])
    with pytest.raises(ValueError, match="x.npz cannot be read: it needs more memory than is available"):
        EmbeddingFiles.read(str(tmp_path / "x.npz"))


def test_columns_that_would_fill_memory_are_refused(tmp_path):
    table = pyarrow.table({"labels": np.zeros(2**20, np.int64)})
    with pyarrow.parquet.ParquetWriter(tmp_path / "x.parquet", table.schema) as file:
        for _ in range(40):
            file.write_table(table)
    with pytest.raises(ValueError, match="it would be unpacked from [0-9,]+ bytes to"):
        read_columns(tmp_path / "x.parquet")


def pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        # Names of sockets are short.
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(path.parent)
            listener.bind(path.name)


def endless(path):
    path.symlink_to("/dev/zero")


READERS = {
    "manifest": lambda path: read_manifest(path, "tfdml index", 1, {}, "Make it again."),
    "embeddings.npy": lambda path: EmbeddingFiles.read(str(path), str(path)),
    "embeddings.npz": lambda path: EmbeddingFiles.read(str(path)),
    "embeddings.parquet": lambda path: EmbeddingFiles.read(str(path)),
    "images.csv": read_image_table,
    "images.parquet": read_image_table,
    "model.keras": loading.load,
    "bad_images.jsonl": read_list,
    "outer.flags": lambda path: expanded(["--epochs=3", f"--flagfile={path}"]),
    "weights.safetensors": read_state_dict,
    "x.caffemodel": read_caffemodel,
    "x.weights.h5": lambda path: load_weights(Small(), str(path)),
    "metrics.jsonl": lambda path: RunDirectory(path.parent).events(),
    "dataset.json": lambda path: RunDirectory(path.parent).recorded_dataset(),
    "checksums.json": lambda path: RunDirectory(path.parent).events(),
    "classes.csv": lambda path: read_class_groups(path, "genus"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [pipe, a_socket, endless], ids=["pipe", "socket", "device"])
def test_what_is_no_file_is_refused_by_name(tmp_path, name, make):
    make(tmp_path / name)
    with pytest.raises((ValueError, OSError), match=rf"{tmp_path / name} is a (pipe|socket|device)"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("make", [pipe, a_socket, endless], ids=["pipe", "socket", "device"])
def test_an_image_that_is_no_file_is_missing(tmp_path, make):
    """TensorFlow would wait for a pipe for ever, and read a device until memory is full."""
    for part in ("train", "test"):
        for number in range(2):
            path = tmp_path / part / f"{part}{number}" / "0.jpg"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (9, 9)).save(path)
    make(tmp_path / "train" / "train1" / "1.jpg")
    with pytest.raises(
        FileNotFoundError, match="1 of 3 listed images are missing, for example .*train1/1.jpg', which is not a file"
    ):
        load("folder", data_dir=str(tmp_path))


def test_a_shard_and_a_cached_row_that_are_pipes_are_refused(tmp_path):
    pipe(tmp_path / "train-00000.tar")
    with pytest.raises(OSError):
        read_part(str(tmp_path / "train-00000.tar"), 512, 3)
    (tmp_path / "cache" / "0").mkdir(parents=True)
    pipe(tmp_path / "cache" / "0" / "7")
    with pytest.raises(OSError, match=f"^{tmp_path}/cache/0/7 is not a file. Remove {tmp_path}/cache"):
        rows_on_disk(tmp_path / "cache")


def test_a_picture_of_an_index_that_is_a_pipe_is_grey(tmp_path):
    pipe(tmp_path / "1.jpg")
    assert _tile(tmp_path / "1.jpg").getextrema() == ((211, 211),) * 3


def test_flagfiles_of_flagfiles_are_read_where_they_are_named(tmp_path):
    first, second = tmp_path / "first.flags", tmp_path / "second.flags"
    first.write_text(f"# --flagfile={tmp_path}/none\n--seed=1\n\n  --flagfile={second}\n--seed=3\n")
    second.write_text("// a comment\n--seed=2\n")
    read = ["--epochs=3", "--seed=1", "--seed=2", "--seed=3", "file", "--", "--flagfile=none"]
    assert expanded(["--epochs=3", "--flagfile", str(first), "file", "--", "--flagfile=none"]) == read
    pipe(tmp_path / "third.flags")
    second.write_text(f"--flagfile={tmp_path}/third.flags\n")
    with pytest.raises(OSError, match=f"{tmp_path}/third.flags is a pipe"):
        expanded([f"--flagfile={first}"])
    second.write_bytes(b"--epochs=3\n\xff")
    with pytest.raises(ValueError, match=f"--flagfile={second} cannot be read: byte 11 is not valid UTF-8 text"):
        expanded([f"--flagfile={first}"])
    with pytest.raises(ValueError, match="--flagfile has no value"):
        expanded(["--flagfile"])


def test_a_flagfile_that_names_itself_is_an_error(tmp_path):
    first, second = tmp_path / "first.flags", tmp_path / "second.flags"
    first.write_text(f"--flagfile={second}\n")
    second.write_text(f"--seed=2\n--flagfile={first}\n")
    with pytest.raises(ValueError, match=f"{first} includes itself: {first} includes {second} includes {first}"):
        expanded([f"--flagfile={first}"])


def test_a_chain_of_flagfiles_may_be_long(tmp_path):
    for number in range(1500):
        (tmp_path / f"{number}.flags").write_text(f"--flagfile={tmp_path}/{number + 1}.flags\n")
    (tmp_path / "1500.flags").write_text("--seed=7\n")
    assert expanded([f"--flagfile={tmp_path}/0.flags"]) == ["--seed=7"]


def test_a_recipe_is_found_from_any_folder_unless_a_file_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--dataset=cub200" in expanded(["--flagfile=configs/cub_edms_no_walk.flags"])
    assert "--run_dir=runs/quickstart" in expanded(["--flagfile=quickstart.flags"])
    (tmp_path / "quickstart.flags").write_text("--seed=7\n")
    assert expanded(["--flagfile=quickstart.flags"]) == ["--seed=7"]
    for missing in ("configs/quickstrat.flags", "configs/quickstart", "~/quickstart.flag"):
        with pytest.raises(FileNotFoundError, match="does not exist.*mean --flagfile=configs/quickstart.flags?"):
            expanded([f"--flagfile={missing}"])
    with pytest.raises(FileNotFoundError, match=f"--flagfile={tmp_path} is a folder. Expected a file of flags.$"):
        expanded([f"--flagfile={tmp_path}"])


def test_a_command_refuses_a_flagfile_that_is_a_pipe(tmp_path):
    pipe(tmp_path / "x.flags")
    assert_one_error(run("tfdml.evaluate", f"--flagfile={tmp_path}/x.flags"), f"{tmp_path}/x.flags is a pipe")
