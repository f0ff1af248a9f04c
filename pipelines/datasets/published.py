"""Published datasets on the user's disk: finds their files or unpacks their archives."""

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
# Images hardly shrink in an archive. An archive that grows by this factor was made to fill a disk.
MOST_GROWTH = 20
ALWAYS_ALLOWED = 64 * 2**20
# Maximum size of a header with a long name or other attributes.
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
    """Returns the archive with this name, or with this name and another extension; None if neither exists."""
    path = Path(path)
    stem = next(path.name.removesuffix(ending) for ending in ENDINGS if path.name.endswith(ending))
    others = [path.with_name(f"{stem}{ending}") for ending in ENDINGS]
    return next((archive for archive in (path, *others) if archive.is_file()), None)


def unpack(archive, produces):
    """Unpacks a tar or zip file into its own folder, unless the path `produces` in that folder exists.

    Files are written to a hidden folder first and moved when all are complete. Existing files are kept. Processes that
    unpack the same archive wait for each other.
    """
    archive = Path(archive)
    try:
        with open_locked(archive.parent / ".unpacking.lock", wait=True):
            if not Path(produces).exists():
                _unpack(archive, archive.parent / ".unpacking", Path(produces).relative_to(archive.parent))
    except (*DAMAGE, OSError) as error:
        # For damaged files, gzip and bz2 raise an OSError without an error number.
        if not isinstance(error, OSError) or error.errno is None:
            reason = reason_of(error).rstrip(":")
            raise damaged(f"The archive {archive}", reason, "Download it again.") from None
        raise OSError(
            f"Cannot unpack {archive}: {error.strerror or error}. Expected a writable folder with enough space. Or "
            "unpack it yourself."
        ) from None


def _unpack(archive, partial, produces):
    logging.getLogger(__name__).info("Unpacking %s ...", archive)
    # An earlier process that was killed may have left files behind.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        extract = _extract_zip if archive.suffix == ".zip" else _extract_tar
        extract(archive, partial, _Budget(archive))
        if not (partial / produces).exists():
            holds = sorted(entry.name for entry in partial.iterdir())
            some = ", ".join(holds[:5]) + (" and more" if len(holds) > 5 else "")
            raise ValueError(
                f"The archive {archive} does not contain {produces}, so it was not unpacked. It contains {some}. "
                "Unpack it yourself, and rename the files."
            )
        # The entry with `produces` is moved last, because the archive is not unpacked again once it exists.
        for entry in sorted(partial.iterdir(), key=lambda entry: (entry.name == Path(produces).parts[0], entry.name)):
            if not (archive.parent / entry.name).exists():
                os.replace(entry, archive.parent / entry.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _Budget:
    """Counts the files and bytes of an archive and raises an error if there are too many."""

    def __init__(self, archive):
        self._archive = archive
        self._members = self._bytes = 0
        free = shutil.disk_usage(archive.parent).free
        growth = ALWAYS_ALLOWED + MOST_GROWTH * archive.stat().st_size
        self._most_bytes = min(MOST_BYTES, growth, free)
        self._bar = ProgressBar(None, "file")

    def take(self, name, size):
        """Counts a member and checks its name before it is written."""
        self._members += 1
        parts = PurePosixPath(name).parts
        if ".." in parts or name.startswith("/") or "\\" in name or "\0" in name:
            self.refuse(f"a file with the name {name!r}, which leads out of the folder")
        if self._members > MOST_MEMBERS:
            self.refuse(f"more than {MOST_MEMBERS:,} files")
        self.take_bytes(size)

    def take_bytes(self, size):
        """Counts unpacked bytes."""
        self._bytes += size
        if self._bytes > self._most_bytes:
            self.refuse(f"more than {self._most_bytes:,} bytes, which is more than fits or than images need")

    def unpacked(self):
        """Moves the progress bar after a member is written."""
        self._bar.add(1)

    def refuse(self, what):
        raise ValueError(f"The archive {self._archive} is not safe to unpack, because it contains {what}.")


def _extract_tar(archive, folder, budget):
    if sys.version_info < (3, 11, 4):
        raise ValueError(f"Unpacking {archive} needs Python 3.11.4 or later. Unpack it yourself.")
    with tarfile.open(archive, tarinfo=_Member) as tar:
        for member in tar:
            budget.take(member.name, member.size)
            if not (member.isfile() or member.isdir()) or member.issparse():
                budget.refuse(f"{member.name!r}, which is a link, a device or a sparse file")
            tar.extract(member, folder, filter="data")
            budget.unpacked()
        # The loop over members also ends at a damaged header. A complete archive ends with a block of zeros.
        tar.fileobj.seek(tar.offset)
        if tar.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
            raise tarfile.ReadError("its end is missing")
        # The checksum of a compressed file is only verified at its end.
        while block := tar.fileobj.read(MOST_OF_HEADER):
            budget.take_bytes(len(block))


class _Member(tarfile.TarInfo):
    """Member with limits on the length of its name and other attributes."""

    def _proc_member(self, tar):
        if self.type in LONG and self.size > MOST_OF_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)


def _extract_zip(archive, folder, budget):
    with zipfile.ZipFile(archive) as packed:
        # All members are checked before the first is written. zipfile never reads more bytes than a member declares.
        for member in packed.infolist():
            budget.take(member.filename, member.file_size)
            if member.flag_bits & 1:
                raise ValueError(f"The archive {archive} is password-protected. Unpack it yourself, into its folder.")
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                budget.refuse(f"{member.filename!r}, which is a link or a device")
        for member in packed.infolist():
            packed.extract(member, folder)
            budget.unpacked()


@dataclasses.dataclass(frozen=True)
class Published:
    """Files and archives of a dataset, as its authors publish it."""

    name: str
    page: str
    # Name of the dataset's folder, which is `--data_dir` or a folder in it.
    folder: str
    # The layouts in which the dataset exists. Each is a tuple of paths below the folder, which are all needed.
    layouts: tuple
    # Path of each archive to the path that it produces, in the same folder.
    archives: dict

    def find(self, data_dir):
        """Returns the dataset's folder and layout, `(path, layout)`, after unpacking archives if needed."""
        if not data_dir:
            raise ValueError(
                f"data_dir is missing for the dataset {self.name!r}. Pass data_dir, or --data_dir on the command line. "
                f"{self._expected('FOLDER')}"
            )
        data_dir = Path(data_dir).expanduser()
        if data_dir.is_file():
            # The user passed the archive itself.
            data_dir = data_dir.parent
        found = self._whole(data_dir) or self._unpacked(data_dir)
        if found is None:
            raise FileNotFoundError(
                f"The dataset {self.name!r} is not in {data_dir}: {self._lacking(data_dir)}. {self._expected(data_dir)}"
            )
        return found

    def check_counts(self, part, split, *, images, classes):
        """Warns if the numbers of images and classes of a part differ from the published numbers."""
        if (len(split), split.num_classes) != (images, classes):
            logging.getLogger(__name__).warning(
                "%s, %s: found %s images in %s classes, instead of %s images in %s classes as published. Scores are "
                "only comparable with published scores on the complete dataset.",
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
        """Unpacks archives until a layout is complete; returns `(path, layout)`, or None."""
        for folder in self._places(data_dir):
            for name, produces in self.archives.items():
                archive = archive_of(folder / name)
                if archive and not (folder / produces).exists():
                    unpack(archive, folder / produces)
                    if found := self._whole(data_dir):
                        return found
        return None

    def _lacking(self, data_dir):
        """Names the files that are missing from the most complete layout."""
        if not data_dir.is_dir():
            return f"there is no folder {data_dir}"
        tried = [(folder, layout) for folder in self._places(data_dir) for layout in self.layouts]
        missing = [[str(folder / path) for path in layout if not (folder / path).exists()] for folder, layout in tried]
        counts = [len(lacking) / len(layout) for lacking, (_, layout) in zip(missing, tried, strict=True)]
        # If nothing exists, name the files in the authors' folder.
        best = counts.index(min(counts)) if min(counts) < 1 else len(self.layouts)
        return f"there is no {', no '.join(missing[best])}"

    def _expected(self, data_dir):
        layouts = "; or ".join(", ".join(layout) for layout in self.layouts)
        return (
            f"Get it from {self.page}. Put its folder {self.folder} there, with {layouts}. Or put its archives there, "
            f"which tfdml then unpacks: {', '.join(self.archives)}. Then check it with "
            f"python -m pipelines.check --dataset={self.name} --data_dir={shlex.quote(str(data_dir))}"
        )
