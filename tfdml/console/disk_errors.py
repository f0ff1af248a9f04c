"""What to do about errors of disks and files, in place of the system's words."""

import errno
import os
import re

# All errors of a full disk say it, wherever they come from.
ROOM = "Make room"
# Error of the system to what is wrong and what to do.
ADVICE = {
    errno.ENOSPC: f"no space is left on the disk. {ROOM}, then give the same command again.",
    errno.EDQUOT: f"your share of the disk is used up. {ROOM}, then give the same command again.",
    errno.EFBIG: "files may not be that large here. Give another folder, or ask for a higher limit.",
    errno.EROFS: "the disk is read-only. Give another folder.",
    errno.EACCES: "you have no permission. Give another folder, or change the permissions.",
    errno.ENOENT: "there is no such file or folder.",
    errno.ENOTDIR: "a part of the path is a file, not a folder.",
    errno.EISDIR: "it is a folder, not a file.",
}
# Those that only writing meets.
OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

UNFINISHED = re.compile(r"(?<=/)\.writing-|\.tmp[0-9a-f]{8,}$")


def is_full(text):
    """Whether what a command has printed says that the disk is full, which is no fault of its flags."""
    return ROOM in text


def told(error):
    """Returns the sentence to print for an error; one that was written for people stays as it is."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # Of a copy the second is the file that is written.
    named = error.filename2 or error.filename
    if named or error.errno in OF_WRITING:
        return _sentence(error.errno, named)
    return f"{error.strerror}."


def told_of_disk(reason):
    """Returns the sentence to print for a reason that TensorFlow gives; None where it is not the disk.

    Args:
        reason: such as `out/variables/variables.index; Read-only file system`.
    """
    for number in (*OF_WRITING, errno.EACCES):
        found = re.search(rf"(?:(\S+?)[;:] )?{os.strerror(number)}", reason)
        if found:
            return _sentence(number, found[1])
    return None


def _sentence(number, named):
    what = "write" if number in OF_WRITING else "use"
    # Under their other names files are only while they are written.
    return (
        f"Cannot {what} {UNFINISHED.sub('', str(named or 'a file'))}: {ADVICE.get(number, os.strerror(number) + '.')}"
    )
