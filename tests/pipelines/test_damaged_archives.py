"""Damaged archives are told, and leave nothing."""

import tarfile

import numpy as np
import pytest

from pipelines.datasets.published import MOST_OF_HEADER, unpack
from tests.pipelines.archive_files import BIRDS, everything, plain_tar, special, tar_of, zip_of


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
    with pytest.raises(ValueError, match="'birds/sparse', which is a link or a device, or has holes"):
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
    with pytest.raises(ValueError, match="has a password. Unpack it by hand"):
        unpack(archive, tmp_path / "birds")
