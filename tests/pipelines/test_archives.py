"""Archives are unpacked once, whole, and into their folder alone; hostile and damaged ones not at all."""

import gzip
import io
import stat
import tarfile
import threading
import zipfile

import numpy as np
import pytest

from pipelines.datasets import published
from pipelines.datasets.published import MOST_OF_HEADER, archive_of, unpack


def tar_of(path, members):
    """An archive of `(name or TarInfo, bytes)`."""
    with tarfile.open(path, "w:gz") as packed:
        for member, content in members:
            member = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            member.size = member.size or len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def zip_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for member, content in members:
            packed.writestr(member, content)
    return path


def special(kind, target="", name="birds/link"):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def zip_link(name="birds/link"):
    member = zipfile.ZipInfo(name)
    member.create_system, member.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return member


BIRDS = [("birds/wren.txt", b"small"), ("birds/own/robin.txt", b"red"), ("readme.txt", b"birds")]


def everything(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.name != ".unpacking.lock"}


def plain_tar(path, members):
    """The bytes of an archive that is not compressed, written to the path."""
    tar_of(path, members)
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(content)
    return bytearray(content)


@pytest.mark.parametrize("make, name", [(tar_of, "birds.tgz"), (zip_of, "birds.zip")])
def test_it_is_unpacked_beside_the_archive(tmp_path, make, name):
    unpack(make(tmp_path / name, BIRDS), tmp_path / "birds")
    assert everything(tmp_path) == {name, "birds", "birds/wren.txt", "birds/own", "birds/own/robin.txt", "readme.txt"}
    assert (tmp_path / "birds/own/robin.txt").read_bytes() == b"red"


def test_what_is_there_stays_and_is_not_unpacked_again(tmp_path):
    archive = tar_of(tmp_path / "birds.tar.gz", BIRDS)
    (tmp_path / "readme.txt").write_text("mine")
    unpack(archive, tmp_path / "birds")
    assert (tmp_path / "readme.txt").read_text() == "mine"
    (tmp_path / "birds/wren.txt").write_text("mine too")
    archive.write_bytes(b"no archive any more")
    unpack(archive, tmp_path / "birds")
    assert (tmp_path / "birds/wren.txt").read_text() == "mine too"


def test_an_archive_with_another_root_is_refused_and_leaves_nothing(tmp_path):
    archive = zip_of(tmp_path / "birds.zip", BIRDS)
    with pytest.raises(ValueError, match=r"does not contain CUB, .* It contains birds, readme.txt. Unpack it yourself"):
        unpack(archive, tmp_path / "CUB")
    assert everything(tmp_path) == {"birds.zip"}


def test_what_a_kill_left_is_cleared(tmp_path):
    (tmp_path / ".unpacking/birds").mkdir(parents=True)
    (tmp_path / ".unpacking/birds/half.txt").write_text("ha")
    unpack(zip_of(tmp_path / "birds.zip", BIRDS), tmp_path / "birds")
    assert not (tmp_path / "birds/half.txt").exists() and not (tmp_path / ".unpacking").exists()


def test_a_lock_that_is_a_link_empties_nothing(tmp_path):
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/.unpacking.lock").symlink_to("../precious")
    archive = zip_of(tmp_path / "sent/birds.zip", BIRDS)
    with pytest.raises(
        ValueError, match=r"sent/.unpacking.lock is a link, which may lead to any file. Do not use it\.$"
    ):
        unpack(archive, tmp_path / "sent/birds")
    assert (tmp_path / "precious").read_bytes() == b"mine" and not (tmp_path / "sent/birds").exists()


def test_two_at_once_unpack_once(tmp_path, monkeypatch):
    archive, times = zip_of(tmp_path / "birds.zip", BIRDS), []
    whole = published._unpack
    monkeypatch.setattr(published, "_unpack", lambda *arguments: (times.append(1), whole(*arguments)))
    both = [threading.Thread(target=unpack, args=(archive, tmp_path / "birds")) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(times) == 1 and (tmp_path / "birds/wren.txt").exists()


def test_a_dot_is_no_way_out(tmp_path):
    root = tarfile.TarInfo(".")
    root.type, root.mode = tarfile.DIRTYPE, 0o755
    unpack(tar_of(tmp_path / "birds.tgz", [(root, b""), ("./birds/wren.txt", b"small")]), tmp_path / "birds")
    assert (tmp_path / "birds/wren.txt").exists()


REFUSED = {
    "tar_up": (tar_of, "../evil.txt", "leads out of the folder"),
    "tar_up_inside": (tar_of, "birds/../../evil.txt", "leads out of the folder"),
    "tar_absolute": (tar_of, "/tmp/tfdml-evil.txt", "leads out of the folder"),
    "tar_symbolic_link": (tar_of, special(tarfile.SYMTYPE, "/etc"), "'birds/link', which is a link"),
    "tar_inner_link": (tar_of, special(tarfile.SYMTYPE, "wren.txt"), "which is a link"),
    "tar_hard_link": (tar_of, special(tarfile.LNKTYPE, "/etc/passwd"), "which is a link"),
    "tar_device": (tar_of, special(tarfile.CHRTYPE), "which is a link"),
    "tar_pipe": (tar_of, special(tarfile.FIFOTYPE), "which is a link"),
    "zip_up": (zip_of, "../evil.txt", "leads out of the folder"),
    "zip_absolute": (zip_of, "/tmp/tfdml-evil.txt", "leads out of the folder"),
    "zip_backslash": (zip_of, "..\\evil.txt", "leads out of the folder"),
    "zip_link": (zip_of, zip_link(), "'birds/link', which is a link"),
}


@pytest.mark.parametrize("make, member, message", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_nothing(tmp_path, make, member, message):
    folder = tmp_path / "data"
    folder.mkdir()
    archive = make(folder / ("birds.zip" if make is zip_of else "birds.tgz"), [*BIRDS, (member, b"evil")])
    with pytest.raises(ValueError, match=message) as error:
        unpack(archive, folder / "birds")
    assert str(archive) in str(error.value)
    assert everything(tmp_path) == {"data", f"data/{archive.name}"}


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_a_bomb_is_refused_by_its_growth(tmp_path, make):
    """100 MiB of zeros, in an archive of some 100 kB."""
    archive = make(tmp_path / ("bomb.zip" if make is zip_of else "bomb.tgz"), [("birds/zeros", bytes(100 * 2**20))])
    assert archive.stat().st_size < 2**20
    with pytest.raises(ValueError, match="more than [0-9,]+ bytes, which is more than fits"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {archive.name}


def test_too_many_files_and_too_many_bytes_and_a_full_disk(tmp_path, monkeypatch):
    archive = tar_of(tmp_path / "birds.tgz", BIRDS)
    monkeypatch.setattr(published, "MOST_MEMBERS", 2)
    with pytest.raises(ValueError, match="more than 2 files"):
        unpack(archive, tmp_path / "birds")
    monkeypatch.undo()
    monkeypatch.setattr(published, "MOST_BYTES", 7)
    with pytest.raises(ValueError, match="more than 7 bytes"):
        unpack(archive, tmp_path / "birds")
    monkeypatch.undo()
    monkeypatch.setattr(published.shutil, "disk_usage", lambda path: tmp_path.stat() and type("Usage", (), {"free": 3}))
    with pytest.raises(ValueError, match="more than 3 bytes"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {"birds.tgz"}


def test_a_folder_that_cannot_be_written(tmp_path):
    """A file in the place of the folder for what is not complete stands for a disk that refuses."""
    archive = zip_of(tmp_path / "birds.zip", BIRDS)
    (tmp_path / ".unpacking").write_text("")
    with pytest.raises(OSError, match=f"Cannot unpack {archive}: .*Or unpack it yourself"):
        unpack(archive, tmp_path / "birds")


def test_an_archive_is_found_by_any_ending(tmp_path):
    assert archive_of(tmp_path / "birds.tgz") is None
    (tmp_path / "birds.tar.xz").write_bytes(b"")
    assert archive_of(tmp_path / "birds.tgz") == tmp_path / "birds.tar.xz"
    (tmp_path / "birds.tgz").write_bytes(b"")
    assert archive_of(tmp_path / "birds.tgz") == tmp_path / "birds.tgz"


def test_a_zip_that_lies_about_its_sizes(tmp_path):
    archive = zip_of(tmp_path / "birds.zip", [("birds/zeros", bytes(2**20))])
    content = archive.read_bytes()
    # Both places that hold the size.
    assert content.count((2**20).to_bytes(4, "little")) == 2
    archive.write_bytes(content.replace((2**20).to_bytes(4, "little"), (9).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="is damaged: .*Download it again"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {"birds.zip"}


@pytest.mark.parametrize("make, name", [(tar_of, "birds.tgz"), (zip_of, "birds.zip")])
def test_damage_is_told(tmp_path, make, name):
    archive = make(tmp_path / name, [("birds/noise", bytes(range(256)) * 99)])
    content = archive.read_bytes()
    for broken in (b"", b"text", content[: len(content) // 2], content[:60] + b"XXXX" + content[64:]):
        archive.write_bytes(broken)
        with pytest.raises(ValueError, match=f"{archive} is damaged: .*Download it again"):
            unpack(archive, tmp_path / "birds")
        assert everything(tmp_path) == {name}


def flipped_header(content):
    content[1024 + 100] ^= 1
    return content


@pytest.mark.parametrize(
    "damage", [flipped_header, lambda content: content[:1024], lambda content: content[: 1024 + 300]]
)
def test_damage_between_members_is_told(tmp_path, damage):
    """Bytes that tarfile takes for the archive's end. A member of up to 512 bytes takes 1024 with its header."""
    archive = tmp_path / "birds.tar"
    archive.write_bytes(damage(plain_tar(archive, [("birds/a", b"a"), ("birds/b", b"b")])))
    with pytest.raises(ValueError, match=f"{archive} is damaged: .*Download it again"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {"birds.tar"}


def test_wrong_bytes_are_found_by_their_checksum(tmp_path):
    noise = np.random.default_rng(0).bytes(5000)
    archive = tar_of(tmp_path / "birds.tgz", [("birds/noise", noise)])
    content = bytearray(archive.read_bytes())
    content[3000] ^= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=f"{archive} is damaged: .*Download it again"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {"birds.tgz"}


def test_holes_and_endless_names_are_refused(tmp_path):
    """Both take more room than the sizes of the members say."""
    sparse = special(tarfile.GNUTYPE_SPARSE, name="birds/sparse")
    sparse.size = 0
    archive = tmp_path / "birds.tar"
    content = plain_tar(archive, [(sparse, b"")])
    # The size that it has when it is written, 1 MiB, in octal.
    content[483:494] = b"00004000000"
    content[148:156] = b"%06o\0 " % (sum(content[:148]) + 8 * 32 + sum(content[156:512]))
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="'birds/sparse', which is a link, a device or a sparse file"):
        unpack(archive, tmp_path / "birds")
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as packed:
        packed.addfile(tarfile.TarInfo("birds/wren"))
        packed.addfile(tarfile.TarInfo("birds/" + "x" * 2 * MOST_OF_HEADER))
    with pytest.raises(ValueError, match=f"{archive} is damaged: a header of 2,097,.* bytes"):
        unpack(archive, tmp_path / "birds")
    assert everything(tmp_path) == {"birds.tar"}


def test_a_password_is_told(tmp_path):
    archive = zip_of(tmp_path / "birds.zip", BIRDS)
    content = bytearray(archive.read_bytes())
    # Bit 0 of the flags, in the header of each file and in the list of all.
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="is password-protected. Unpack it yourself"):
        unpack(archive, tmp_path / "birds")
