"""Archives, good and hostile, for the tests of what unpacks them."""

import gzip
import io
import stat
import tarfile
import zipfile


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
