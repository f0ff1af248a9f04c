"""The value of the flag that is the size of images."""

import re

from absl import flags

LEAST, MOST = 8, 4096


class SizeParser(flags.ArgumentParser):
    """Converts the side of a square to an integer, and `256x128` to (height, width); of equal sides one is enough."""

    syntactic_help = "a side, or HEIGHTxWIDTH"

    def parse(self, argument):
        found = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", argument)
        height, width = (int(found[1]), int(found[2] or found[1])) if found else (-1, -1)
        if argument != "0" and not (LEAST <= height <= MOST and LEAST <= width <= MOST):
            raise ValueError(
                f"Expected a side such as 224, or height x width such as 256x128, each from {LEAST} to {MOST}; or 0, "
                "the backbone's own."
            )
        return height if height == width else (height, width)


class SizeSerializer(flags.ArgumentSerializer):
    """Writes what `SizeParser` reads."""

    def serialize(self, value):
        return str(value) if isinstance(value, int) else "x".join(map(str, value))
