"""Files that are complete or absent: atomic writing, fingerprints, locks, and limits on unpacking."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tokenize
import types
import zipfile
import zlib
from pathlib import Path

SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
# Errors of writing, which do not always say what was written.
NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# What a shell puts where a command has `<(...)`: a pipe that somebody writes.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# Of an integer that a float can hold.
MOST_DIGITS = 308


def write_atomically(path, content):
    """Writes bytes so that `path` holds either the old or the new content, whenever the machine stops."""
    path = Path(path)
    temporary = path.with_name(f".writing-{path.name}")
    try:
        write_flushed(temporary, lambda file: file.write(content))
        temporary.rename(path)
    except OSError as error:
        # Of which nobody knows the other name.
        error.filename, error.filename2 = str(path), None
        raise


def write_flushed(path, fill):
    """Writes a new file, which `fill` fills, in place of any that is there, and returns when it is on the disk."""
    with naming(path), open(vacated(path), "xb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def naming(path):
    """A context whose errors name a file, or the folder that files are written to, where they name none.

    A disk that fills up while a file is written does not say which.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NAMELESS:
            error.filename = error.filename or str(path)
        raise


def vacated(path):
    """Returns a path after removing the file that is there: in a folder of others it may be a link to one of ours."""
    Path(path).unlink(missing_ok=True)
    return path


def cleared(path):
    """Returns a path after removing the folder that is there; of one that is a link only the link."""
    if Path(path).is_symlink():
        Path(path).unlink()
    shutil.rmtree(path, ignore_errors=True)
    return path


def folder_in(path, name, what):
    """Returns a folder in another one, `what`; a ValueError if it is a link, which would lead writing out of it."""
    folder = Path(path) / name
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link out of the {what} {path}; do not use it.")
    return folder


def open_unlinked(path, flags):
    """Opens a file for `open`, as its `opener`; a ValueError if it is a link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a link; do not use it.") from None
        raise


def open_locked(path, wait=False):
    """Opens a file, which is made if it is missing, and locks it for this process until it is closed.

    If another process has locked it, this waits, or raises a BlockingIOError without `wait`.
    """
    try:
        # Windows lacks it. Losses and models need no locks.
        import fcntl
    except ImportError:
        how = "this Python has no fcntl. Use Linux, macOS, or WSL on Windows."
        raise OSError(f"{path} cannot be locked: {how}") from None
    file = os.fdopen(open_unlinked(path, os.O_RDWR | os.O_CREAT))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    return file


def flush(path):
    """Makes sure that a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_file(path):
    """Opens a file to read bytes; an OSError if it is a pipe, a device or the like, whose reading may never end."""
    kind = SPECIAL.get(stat.S_IFMT(os.stat(path).st_mode))
    if kind and not str(path).startswith(OF_THE_SHELL):
        raise OSError(f"{path} is {kind}, and no file")
    return open(path, "rb")


def read_bytes(path):
    """Returns the content of a file that `open_file` opens."""
    with open_file(path) as file:
        return file.read()


def text_of(content):
    """Returns the text that bytes hold; a ValueError that says why they hold none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8 text, from byte {error.start:,} on") from None


def json_of(content):
    """Returns what bytes of JSON hold; a ValueError that says why they hold none."""

    def integer(text):
        # What computes with it as with any number would end with an error that names no file.
        if len(text) > MOST_DIGITS:
            raise ValueError(f"it has a number of {len(text):,} digits")
        return int(text)

    try:
        return json.loads(text_of(content), parse_int=integer)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def reason_of(error):
    """Returns in one line and in words what an error says of a file that is damaged or was made by hand."""
    if isinstance(error, UnicodeDecodeError):
        return "it has a text that is no UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    words = " ".join(str(error).split())
    return f"it lacks {words}" if isinstance(error, KeyError) else words or type(error).__name__


def fingerprint(path):
    """Returns size and SHA-256 of a file, as a manifest has them."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def damaged(what, reason, advice):
    """Returns the ValueError of a file that is not what was written; the reason is in words, or an error."""
    return ValueError(f"{what} is damaged: {reason_of(reason).rstrip('.')}. {advice}")


def record_of(content, what, entries, advice):
    """Returns the dictionary that bytes of JSON hold; the ValueError of `damaged` if an entry is missing or wrong.

    `entries` maps a name to what its value must be: a type, a function that tells whether a value is right (it gets
    `None` if there is none), or the value itself.
    """
    try:
        found = json_of(content)
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, received {type(found).__name__}")
        _check_entries(found, entries)
        return found
    except ValueError as error:
        raise damaged(what, error, advice) from None


def _check_entries(found, entries):
    for name, expected in entries.items():
        value = found.get(name)
        if isinstance(expected, type | types.UnionType):
            right = isinstance(value, expected)
        else:
            right = expected(value) if callable(expected) else value == expected
        if not right or name in found and value is None:
            raise ValueError(f"{name} is missing or wrong")


def read_record(path, entries, advice):
    """Returns the dictionary that `write_record` wrote, see `record_of`; a FileNotFoundError if there is no file."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(path, error, advice) from None
    return record_of(content, path, entries, advice)


def write_record(path, content, indent=None):
    """Writes a dictionary as JSON, so that `path` holds either the old or the new one, whenever the machine stops."""
    write_atomically(path, f"{json.dumps(content, indent=indent)}\n".encode())


def read_manifest(path, what, version, entries, advice, read=None):
    """Returns the content of a manifest, a dictionary; a ValueError says why it cannot be used.

    `what` and `version` are what its `format` and its `version` must be, and `entries` are those of `record_of`. If a
    path is not on the disks of this machine, `read` returns its bytes.
    """
    try:
        found = record_of((read or read_bytes)(path), path, {}, advice)
    except (FileNotFoundError, NotADirectoryError):
        folder, name = os.path.split(path)
        raise ValueError(f"{folder} is no {what}: it has no {name}.") from None
    except OSError as error:
        raise damaged(path, error, advice) from None
    if found.get("format") != what:
        raise ValueError(f"{path} is no manifest of a {what}.")
    if found.get("version") != version:
        raise ValueError(
            f"{path} is of version {found.get('version')!r} of the format; this tfdml reads version {version}. {advice}"
        )
    try:
        _check_entries(found, entries)
    except ValueError as error:
        raise damaged(path, error, advice) from None
    return found


def write_manifest(path, what, version, content):
    """Writes a manifest that `read_manifest` reads."""
    write_record(path, {"format": what, "version": version, **content}, indent=1)


def checked_file(folder, name, expected):
    """Returns the path of a file in the folder of a manifest; a ValueError if its `fingerprint` is another one."""
    path = Path(folder) / str(name)
    if path.name != name or path.is_symlink():
        raise ValueError(f"The manifest in {folder} names {name!r}, which is no file in that folder; do not use it.")
    if not path.is_file():
        raise ValueError(f"{path} is missing; make it anew.")
    if fingerprint(path) != expected:
        raise damaged(path, "it is not what the manifest says was written", "Make it anew.")
    return path


LOCK = ".lock"


def new_folder(path, what, flag=""):
    """Returns the path of a folder to write to; a ValueError unless it has a name, and is empty or does not exist.

    Errors call its content `what`. If a `flag` names the folder, such as `--out`, they name the flag.
    """
    folder, name = Path(path), f"{flag}={path}" if flag else str(path)
    if not path:
        raise ValueError(f"{flag or 'The path'} is missing: the folder for {what}.")
    # It is written under another name first.
    if folder.name in ("", ".."):
        raise ValueError(f"{name} cannot be replaced; give a folder by a name of its own.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{name} exists and is not empty; give a new folder.")
    return folder


@contextlib.contextmanager
def locked(path, what):
    """Locks a folder, such as an `index`, for this process; a ValueError if another one has done so."""
    try:
        file = open_locked(Path(path) / LOCK)
    except BlockingIOError:
        raise ValueError(f"Another process is changing the {what} {path}; wait for it.") from None
    with file:
        yield


@contextlib.contextmanager
def whole_folder(path, what):
    """Returns a context with a folder to fill, which becomes `path` if no error ends it, and is removed otherwise.

    The path must be empty or not exist; a ValueError says that another process is writing it, or has written it.
    """
    path = Path(path)
    unfinished = path.with_name(f".writing-{path.name}")
    with naming(path), _writing(path, unfinished.with_name(f"{unfinished.name}.lock"), what):
        if path.exists() and any(path.iterdir()):
            raise ValueError(f"Another process has written the {what} {path} meanwhile. Use a new or empty folder.")
        # A process that was killed leaves what it had written.
        cleared(unfinished).mkdir()
        try:
            yield unfinished
            flush(unfinished)
            unfinished.rename(path)
        finally:
            cleared(unfinished)


@contextlib.contextmanager
def _writing(path, lock, what):
    """Locks a file next to a folder, which does not exist yet, and removes the file at the end."""
    try:
        # The lock names a parent that is a file as what it is; `mkdir` would say that it exists.
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_present(lock)
    except BlockingIOError:
        raise ValueError(f"Another process is writing the {what} {path}. Wait for it, or use another folder.") from None
    except OSError as error:
        # Nobody knows the name of the lock.
        error.filename = str(path)
        raise
    with file:
        try:
            yield
        finally:
            lock.unlink()


def _open_present(lock):
    """Opens and locks a file that exists once it is locked: the process that held it before may have removed it."""
    while True:
        file = open_locked(lock)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(lock, follow_symlinks=False)):
                return file
        file.close()


# What NumPy, h5py and zipfile raise for archives and arrays that are cut off, changed, or made by hand.
BROKEN = (ValueError, OSError, EOFError, KeyError, TypeError, RuntimeError, MemoryError)
BROKEN += (SyntaxError, SystemError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
# Weights and embeddings hardly shrink; a file that grows this much was made to fill memory.
MOST_GROWTH = 20
ALWAYS_ALLOWED = 256 * 2**20


def check_growth(size, stored):
    """Raises a ValueError if a file of `stored` bytes is unpacked to more bytes than models and embeddings need."""
    if size > ALWAYS_ALLOWED + MOST_GROWTH * stored:
        raise ValueError(f"it would be unpacked from {stored:,} bytes to {size:,}, more than models or embeddings need")


def check_zip(archive):
    """Raises a ValueError if a zip file would be unpacked to far more than it has, by the sizes that it declares.

    More than it declares is never read: `zipfile` stops there.
    """
    members = archive.infolist()
    check_growth(sum(member.file_size for member in members), sum(member.compress_size for member in members))


def check_datasets(file, stored):
    """Raises a ValueError if datasets of an `h5py.File` are in other files, or far larger than its `stored` bytes."""
    import h5py

    sizes = []

    def visit(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise ValueError(f"its dataset {name} lies in another file")
        sizes.append(item.nbytes)

    file.visititems(visit)
    check_growth(sum(sizes), stored)
