"""Files that are complete or absent: atomic writes, fingerprints, locks, and limits on unpacking."""

import contextlib
import errno
import hashlib
import json
import os
import reprlib
import shutil
import stat
import time
import tokenize
import types
import zipfile
import zlib
from pathlib import Path

SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
# Errors that can occur while writing, and do not always name the file.
NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# Paths that a shell passes for `<(...)`: a pipe that another process writes.
OF_THE_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# Seconds between two attempts to lock a file on Windows.
SECONDS_TO_WAIT = 0.1
# Maximum number of digits of an integer that a float can hold.
MOST_DIGITS = 308


def write_atomically(path, content):
    """Writes bytes so that `path` has either the old or the new content, even if the machine stops."""
    path = Path(path)
    temporary = path.with_name(f".writing-{path.name}")
    try:
        write_flushed(temporary, lambda file: file.write(content))
        temporary.replace(path)
    except OSError as error:
        # Name the target in the error, because users do not know the temporary name.
        error.filename, error.filename2 = str(path), None
        raise


def write_flushed(path, fill):
    """Fills a new file with `fill`, replacing any existing file. Returns when the data is on the disk."""
    with naming(path), open(vacated(path), "xb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def naming(path):
    """Context manager that adds a path to OSErrors without one: the file, or the folder that files are written to.

    For example, the error of a full disk does not name the file.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NAMELESS:
            error.filename = error.filename or str(path)
        raise


def vacated(path):
    """Removes the file at a path, which may be a link to one of our files in a foreign folder. Returns the path."""
    Path(path).unlink(missing_ok=True)
    return path


def cleared(path):
    """Removes the folder at a path and returns the path. If it is a link, only the link is removed."""
    if Path(path).is_symlink():
        Path(path).unlink()
    shutil.rmtree(path, ignore_errors=True)
    return path


def folder_in(path, name, what):
    """Returns a subfolder of a folder (a `what`). A link is a ValueError, because writes would leave the folder."""
    folder = Path(path) / name
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link that leads out of the {what} {path}. Do not use this {what}.")
    return folder


def open_unlinked(path, flags):
    """Opens a file as the `opener` of `open`. A link is a ValueError."""
    try:
        return os.open(path, flags | vars(os).get("O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a link, which may lead to any file. Do not use it.") from None
        raise


def open_locked(path, wait=False):
    """Opens a file, which is created if necessary, and locks it for this process until it is closed.

    If another process holds the lock, this waits with `wait`, and otherwise raises a BlockingIOError.
    """
    file = os.fdopen(open_unlinked(path, os.O_RDWR | os.O_CREAT))
    try:
        _lock(file, wait)
    except OSError:
        file.close()
        raise
    return file


def _lock(file, wait):
    try:
        # Imported here because losses and models need no locks.
        import fcntl
    except ImportError:
        _lock_on_windows(file, wait)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _lock_on_windows(file, wait):
    import msvcrt

    while True:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return
        except OSError as error:
            if not wait:
                raise BlockingIOError(error.errno, "another process holds the lock") from None
        time.sleep(SECONDS_TO_WAIT)


def flush(path):
    """Waits until a file or folder is on the disk."""
    if os.name == "nt" and Path(path).is_dir():
        # Windows cannot open folders. It writes their entries itself.
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_file(path):
    """Opens a file to read bytes. Raises an OSError for a pipe, a device or the like, which may have no end."""
    kind = SPECIAL.get(stat.S_IFMT(os.stat(path).st_mode))
    if kind and not str(path).startswith(OF_THE_SHELL):
        raise OSError(f"{path} is {kind}, not a file")
    return open(path, "rb")


def read_bytes(path):
    """Returns the contents of a file, which is opened with `open_file`."""
    with open_file(path) as file:
        return file.read()


def text_of(content):
    """Decodes bytes as UTF-8. If that is not possible, the ValueError states the reason."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start:,} is not valid)") from None


def json_of(content):
    """Parses bytes as JSON. If that is not possible, the ValueError states the reason."""

    def integer(text):
        # Otherwise, later computations would fail with an error that names no file.
        if len(text) > MOST_DIGITS:
            raise ValueError(f"it contains a number with {len(text):,} digits")
        return int(text)

    try:
        return json.loads(text_of(content), parse_int=integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def reason_of(error):
    """Returns the reason in an error about a damaged or manipulated file, in one line of words."""
    if isinstance(error, UnicodeDecodeError):
        return "it contains text that is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it needs more memory than is available"
    words = " ".join(str(error).split())
    return f"it does not contain {words}" if isinstance(error, KeyError) else words or type(error).__name__


def fingerprint(path):
    """Returns the size and the SHA-256 of a file, as manifests store them."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        return {"bytes": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def damaged(what, reason, advice):
    """Returns the ValueError for a file that is not what was written. The reason is a sentence or an error."""
    return ValueError(f"{what} is damaged: {reason_of(reason).rstrip('.')}. {advice}")


def record_of(content, what, entries, advice):
    """Parses a dictionary from bytes of JSON. A missing or wrong entry is the ValueError of `damaged`.

    `entries` maps each name to what its value must be: a type, a function that returns whether a value is right (it
    gets `None` for a missing value), or the value itself.
    """
    try:
        found = json_of(content)
        if not isinstance(found, dict):
            raise ValueError(f"expected a JSON object, but found {type(found).__name__}")
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
            raise ValueError(f"the entry {name} is missing or wrong")


def read_record(path, entries, advice):
    """Returns what `write_record` has written, a dictionary; see `record_of`. A missing file is a FileNotFoundError."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(path, error, advice) from None
    return record_of(content, path, entries, advice)


def write_record(path, content, indent=None):
    """Writes a dictionary as JSON so that `path` has either the old or the new content, even if the machine stops."""
    write_atomically(path, f"{json.dumps(content, indent=indent)}\n".encode())


def read_manifest(path, what, version, entries, advice, read=None):
    """Returns the content of a manifest, a dictionary. If it cannot be used, the ValueError states the reason.

    `what` and `version` must equal its entries `format` and `version`. `entries` are as in `record_of`. If a path is
    not on this machine's disks, `read` returns its bytes.
    """
    try:
        found = record_of((read or read_bytes)(path), path, {}, advice)
    except (FileNotFoundError, NotADirectoryError):
        folder, name = os.path.split(path)
        because = f"has no {name}" if read or os.path.exists(folder) else "does not exist"
        raise ValueError(f"{folder} is not a {what}, because it {because}.") from None
    except OSError as error:
        raise damaged(path, error, advice) from None
    if found.get("format") != what:
        raise ValueError(f"{path} is not the manifest of a {what}.")
    if found.get("version") != version:
        raise ValueError(
            f"{path} has the format version {reprlib.repr(found.get('version'))}, but this version of tfdml reads "
            f"version {version}. {advice}"
        )
    try:
        _check_entries(found, entries)
    except ValueError as error:
        raise damaged(path, error, advice) from None
    return found


def write_manifest(path, what, version, content):
    """Writes a manifest for `read_manifest`."""
    write_record(path, {"format": what, "version": version, **content}, indent=1)


def checked_file(folder, name, expected):
    """Returns the path of a file in a manifest's folder. Raises a ValueError if its `fingerprint` differs."""
    path = Path(folder) / str(name)
    if path.name != name or path.is_symlink():
        raise ValueError(
            f"The manifest in {folder} names {name!r}, which is not a file in this folder. Do not use this folder."
        )
    if not path.is_file():
        raise ValueError(f"{path} is missing. Create it again.")
    if fingerprint(path) != expected:
        raise damaged(path, "its content does not match the manifest", "Create it again.")
    return path


LOCK = ".lock"


def new_folder(path, what, flag=""):
    """Returns the path of a folder to write to. Raises a ValueError unless the folder is empty or does not exist.

    Errors call its content `what`. If a `flag` such as `--out` names the folder, they name the flag.
    """
    folder, name = Path(path), f"{flag}={path}" if flag else str(path)
    if not path:
        raise ValueError(f"{flag or 'The path'} is missing. Set it to the folder for {what}.")
    # The folder is first written under another name next to it, so it needs a name of its own.
    if folder.name in ("", ".."):
        raise ValueError(f"{name} cannot be replaced. Use a folder with a name of its own.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{name} exists and is not empty. Use a new folder.")
    return folder


@contextlib.contextmanager
def locked(path, what):
    """Context manager that locks a folder, such as an `index`. A lock of another process is a ValueError."""
    try:
        file = open_locked(Path(path) / LOCK)
    except BlockingIOError:
        raise ValueError(f"Another process is changing the {what} {path}. Wait until it has finished.") from None
    with file:
        yield


@contextlib.contextmanager
def whole_folder(path, what):
    """Context manager with a folder to fill, which becomes `path` at the end, or is removed after an error.

    The path must be empty or not exist. If another process writes or has written it, it is a ValueError.
    """
    path = Path(path)
    unfinished = path.with_name(f".writing-{path.name}")
    with naming(path), _writing(path, unfinished.with_name(f"{unfinished.name}.lock"), what):
        if path.exists() and any(path.iterdir()):
            raise ValueError(f"Another process has written the {what} {path} meanwhile. Use a new or empty folder.")
        # A killed process may have left its files.
        cleared(unfinished).mkdir()
        try:
            yield unfinished
            flush(unfinished)
            unfinished.rename(path)
        finally:
            cleared(unfinished)


@contextlib.contextmanager
def _writing(path, lock, what):
    """Locks a file next to a folder that does not exist yet, and removes the file at the end."""
    try:
        # If the parent is a file, opening the lock reports that clearly. `mkdir` would report that it exists.
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_present(lock)
    except BlockingIOError:
        raise ValueError(f"Another process is writing the {what} {path}. Wait for it, or use another folder.") from None
    except OSError as error:
        # Name the folder in the error, because users do not know the lock's name.
        error.filename = str(path)
        raise
    with file:
        try:
            yield
        finally:
            lock.unlink()


def _open_present(lock):
    """Opens and locks a file that still exists afterwards, because a process that held the lock may have removed it."""
    while True:
        file = open_locked(lock)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(lock, follow_symlinks=False)):
                return file
        file.close()


# Errors that NumPy, h5py and zipfile raise for archives and arrays that are truncated, changed or manipulated.
BROKEN = (ValueError, OSError, EOFError, KeyError, TypeError, RuntimeError, MemoryError)
BROKEN += (SyntaxError, SystemError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
# Weights and embeddings hardly compress, so a file that grows more than this was made to fill the memory.
MOST_GROWTH = 20
ALWAYS_ALLOWED = 256 * 2**20


def check_growth(size, stored):
    """Raises a ValueError if a file of `stored` bytes would unpack to far more than models and embeddings need."""
    if size > ALWAYS_ALLOWED + MOST_GROWTH * stored:
        raise ValueError(
            f"it would be unpacked from {stored:,} bytes to {size:,}, which is more than models or embeddings need"
        )


def check_zip(archive):
    """Raises a ValueError if a zip file would unpack to far more bytes than it has, by the sizes that it declares.

    `zipfile` never reads more than the declared sizes.
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
            raise ValueError(f"its dataset {name} is in another file")
        sizes.append(item.nbytes)

    file.visititems(visit)
    check_growth(sum(sizes), stored)
