"""Published datasets on the user's disk: finds their files, or unpacks their archives."""

import dataclasses
import logging
import lzma
import os
import shlex
import shutil
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import damaged, open_locked, reason_of

ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
MOST_MEMBERS = 2_000_000
MOST_BYTES = 256 * 2**30
# Images hardly shrink in an archive; one that grows this much was made to fill a disk.
MOST_GROWTH = 20
ALWAYS_ALLOWED = 64 * 2**20
# Of a header that holds a long name, or other attributes.
MOST_OF_HEADER = 2**20
LONG = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)
DAMAGE += (UnicodeDecodeError, RecursionError, struct.error)


def archive_of(path):
    """Returns the archive of this name, or of the same name with another ending; None if neither exists."""
    path = Path(path)
    stem = next(path.name.removesuffix(ending) for ending in ENDINGS if path.name.endswith(ending))
    others = [path.with_name(f"{stem}{ending}") for ending in ENDINGS]
    return next((archive for archive in (path, *others) if archive.is_file()), None)


def unpack(archive, produces):
    """Unpacks a tar or zip file into its own folder, unless the path `produces` in that folder exists.

    Files go to a hidden folder first, and are moved when all are complete. Existing files stay. Processes that unpack
    the same archive wait for each other.
    """
    archive = Path(archive)
    try:
        with open_locked(archive.parent / ".unpacking.lock", wait=True):
            if not Path(produces).exists():
                _unpack(archive, archive.parent / ".unpacking", Path(produces).relative_to(archive.parent))
    except (*DAMAGE, OSError) as error:
        # For damaged files gzip and bz2 raise an OSError without a number.
        if not isinstance(error, OSError) or error.errno is None:
            reason = reason_of(error).rstrip(":")
            raise damaged(f"The archive {archive}", reason, "Download it again.") from None
        raise OSError(
            f"Cannot unpack {archive}: {error.strerror or error}. Expected a writable folder with room; or unpack it "
            "by hand."
        ) from None


def _unpack(archive, partial, produces):
    logging.getLogger(__name__).info("Unpacking %s ...", archive)
    # Left by a process that was killed.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        extract = _extract_zip if archive.suffix == ".zip" else _extract_tar
        extract(archive, partial, _Budget(archive))
        if not (partial / produces).exists():
            holds = sorted(entry.name for entry in partial.iterdir())
            some = ", ".join(holds[:5]) + (" and more" if len(holds) > 5 else "")
            raise ValueError(
                f"The archive {archive} does not hold {produces}, so nothing of it was unpacked. It holds {some}: "
                "unpack it by hand, and rename the files."
            )
        # The entry with `produces` last: once it is there, the archive is not unpacked again.
        for entry in sorted(partial.iterdir(), key=lambda entry: (entry.name == Path(produces).parts[0], entry.name)):
            if not (archive.parent / entry.name).exists():
                os.replace(entry, archive.parent / entry.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _Budget:
    """Counts files and bytes of an archive, and raises an error if they are too many."""

    def __init__(self, archive):
        self._archive = archive
        self._members = self._bytes = 0
        free = shutil.disk_usage(archive.parent).free
        growth = ALWAYS_ALLOWED + MOST_GROWTH * archive.stat().st_size
        self._most_bytes = min(MOST_BYTES, growth, free)
        self._bar = ProgressBar(None, "file")

    def take(self, name, size):
        """Accounts for a member before it is written, and checks its name."""
        self._members += 1
        parts = PurePosixPath(name).parts
        if ".." in parts or name.startswith("/") or "\\" in name or "\0" in name:
            self.refuse(f"the name {name!r}, which leads out of the folder")
        if self._members > MOST_MEMBERS:
            self.refuse(f"more than {MOST_MEMBERS:,} files")
        self.take_bytes(size)

    def take_bytes(self, size):
        """Accounts for bytes that are unpacked."""
        self._bytes += size
        if self._bytes > self._most_bytes:
            self.refuse(f"more than {self._most_bytes:,} bytes, more than fits or than images need")

    def unpacked(self):
        """Tells that a member is written."""
        self._bar.add(1)

    def refuse(self, what):
        raise ValueError(f"The archive {self._archive} is not unpacked: it holds {what}.")


def _extract_tar(archive, folder, budget):
    if sys.version_info < (3, 11, 4):
        raise ValueError(f"Unpacking {archive} needs Python 3.11.4 or later; unpack it by hand.")
    with tarfile.open(archive, tarinfo=_Member) as tar:
        for member in tar:
            budget.take(member.name, member.size)
            if not (member.isfile() or member.isdir()) or member.issparse():
                budget.refuse(f"{member.name!r}, which is a link or a device, or has holes")
            tar.extract(member, folder, filter="data")
            budget.unpacked()
        # The loop over members may also end at a damaged header; the archive itself ends with a block of zeros.
        tar.fileobj.seek(tar.offset)
        if tar.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
            raise tarfile.ReadError("its end is missing")
        # The checksum of a compressed file is compared at its end only.
        while block := tar.fileobj.read(MOST_OF_HEADER):
            budget.take_bytes(len(block))


class _Member(tarfile.TarInfo):
    """A member with limits on the length of its name and other attributes."""

    def _proc_member(self, tar):
        if self.type in LONG and self.size > MOST_OF_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)


def _extract_zip(archive, folder, budget):
    with zipfile.ZipFile(archive) as packed:
        # All before the first is written. More than a member declares is never read: zipfile stops there.
        for member in packed.infolist():
            budget.take(member.filename, member.file_size)
            if member.flag_bits & 1:
                raise ValueError(f"The archive {archive} has a password. Unpack it by hand, where it lies.")
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                budget.refuse(f"{member.filename!r}, which is a link or a device")
        for member in packed.infolist():
            packed.extract(member, folder)
            budget.unpacked()


@dataclasses.dataclass(frozen=True)
class Published:
    """Describes a dataset as its authors publish it."""

    name: str
    page: str
    # Name of its folder, which `--data_dir` is or holds.
    folder: str
    # The layouts in which it exists; each a tuple of paths below the folder, all needed.
    layouts: tuple
    # Path of each archive to the path that it produces, in the same folder.
    archives: dict

    def find(self, data_dir):
        """Returns its folder and layout, `(path, layout)`, after unpacking archives if needed."""
        if not data_dir:
            raise ValueError(
                f"The dataset {self.name!r} needs data_dir, in a command --data_dir. {self._expected('FOLDER')}"
            )
        data_dir = Path(data_dir).expanduser()
        if data_dir.is_file():
            # The archive itself.
            data_dir = data_dir.parent
        found = self._whole(data_dir) or self._unpacked(data_dir)
        if found is None:
            raise FileNotFoundError(
                f"The dataset {self.name!r} is not in {data_dir}: {self._lacking(data_dir)}. {self._expected(data_dir)}"
            )
        return found

    def check_counts(self, part, split, *, images, classes):
        """Warns if the numbers of images and classes of a part differ from the published ones."""
        if (len(split), split.num_classes) != (images, classes):
            logging.getLogger(__name__).warning(
                "%s, %s: %s images of %s classes here, %s images of %s classes as published. Scores are comparable "
                "with published ones only on the full set.",
                self.name,
                part,
                *(f"{number:,}" for number in (len(split), split.num_classes, images, classes)),
            )

    def _places(self, data_dir):
        return [data_dir, data_dir / self.folder]

    def _whole(self, data_dir):
        for folder in self._places(data_dir):
            for layout in self.layouts:
                if all((folder / path).exists() for path in layout):
                    return folder, layout
        return None

    def _unpacked(self, data_dir):
        """Unpacks archives until a layout is complete, and returns `(path, layout)`, or None."""
        for folder in self._places(data_dir):
            for name, produces in self.archives.items():
                archive = archive_of(folder / name)
                if archive and not (folder / produces).exists():
                    unpack(archive, folder / produces)
                    if found := self._whole(data_dir):
                        return found
        return None

    def _lacking(self, data_dir):
        """Names the files that are missing from the layout that is nearest to complete."""
        if not data_dir.is_dir():
            return f"there is no folder {data_dir}"
        tried = [(folder, layout) for folder in self._places(data_dir) for layout in self.layouts]
        missing = [[str(folder / path) for path in layout if not (folder / path).exists()] for folder, layout in tried]
        counts = [len(lacking) / len(layout) for lacking, (_, layout) in zip(missing, tried, strict=True)]
        # If nothing is there at all: the folder as its authors name it.
        best = counts.index(min(counts)) if min(counts) < 1 else len(self.layouts)
        return f"there is no {', no '.join(missing[best])}"

    def _expected(self, data_dir):
        layouts = "; or ".join(", ".join(layout) for layout in self.layouts)
        return (
            f"Get it from {self.page} and put its folder {self.folder} there, with {layouts}; or its archives, "
            f"which are then unpacked: {', '.join(self.archives)}. Then check it: "
            f"python -m pipelines.check --dataset={self.name} --data_dir={shlex.quote(str(data_dir))}"
        )
