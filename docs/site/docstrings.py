"""Prepares docstrings for the reference."""

import re


def with_single_arguments(text):
    """Splits `mean, std: numbers` into two arguments with the same text, and turns call arguments into a list."""

    def single(found):
        return "".join(f"    {name}:{found[2]}" for name in found[1].split(", "))

    def listed(found):
        return f"    - `{found[1]}`:{found[2]}"

    argument = re.compile(r"^ {4}([\w*]+(?:, [\w*]+)*):(.*\n(?: {6}.*\n|\n(?= {6}))*)", re.MULTILINE)
    sections = re.split(r"^(?=\S)", text + "\n", flags=re.MULTILINE)
    ways = {"Args:": single, "Call arguments:": listed}
    read = [
        argument.sub(way, section) if (way := ways.get(section.partition("\n")[0])) else section for section in sections
    ]
    return "".join(read).removesuffix("\n")
