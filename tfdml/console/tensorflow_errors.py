"""TensorFlow's errors in one line."""

import re

# Lines of an error before its message: headings, and a stack of files.
BEFORE_REASON = re.compile(
    r"Graph execution error|Detected at node|\d+ root error|<stack traces unavailable>|\s+File \"|\t? *\[\[\{\{"
)


def tensorflow_reason(error: Exception) -> str:
    """Returns the message of a TensorFlow error in one line, without a full stop and the names of its operation.

    In an error from a graph the message comes after the place where the operation was defined.
    """
    lines = [line for line in error.message.split("\n") if line.strip() and not BEFORE_REASON.match(line)]
    message = re.sub(r"^\s*\(\d+\) *\w+:|\{\{.*?\}\}|\[Op:.*", "", (lines or [error.message])[0]).strip()
    checked = re.fullmatch(r"assertion failed: (.*)", message)
    message = " ".join(re.findall(r"\[*([^][]+)\]*", checked[1])) if checked else message
    return message.rstrip(".")
