"""TensorFlow's errors in one line."""

import re

# Lines of an error that come before what it says: headings, and a stack of files.
BEFORE_REASON = re.compile(
    r"Graph execution error|Detected at node|\d+ root error|<stack traces unavailable>|\s+File \"|\t? *\[\[\{\{"
)


def reason_of(error):
    """What an error of TensorFlow says, without the names of its function in front and its operation behind.

    Of an error in a graph it stands behind where the operation was defined, if it does at all.
    """
    lines = [line for line in error.message.split("\n") if line.strip() and not BEFORE_REASON.match(line)]
    message = re.sub(r"^\s*\(\d+\) *\w+:|\{\{.*?\}\}|\[Op:.*", "", (lines or [error.message])[0]).strip()
    checked = re.fullmatch(r"assertion failed: (.*)", message)
    return " ".join(re.findall(r"\[*([^][]+)\]*", checked[1])) if checked else message
