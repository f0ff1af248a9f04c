"""Creates the emoji dataset of the studies: `python -m benchmarks.studies.emoji_set --sources=checkouts --out=emoji`.

Each class is an emoji, and its images are the drawings of up to seven vendors, on white, with 64 × 64 pixels. The
drawings are in public repositories. Check them out at the revisions that docs/datasets.md lists. The result is a
dataset `folder` with a table `classes.csv`, and a table `names.csv` for the dataset `csv`, in which the caption of an
image is its Unicode name. The last line of the output shows whether its pixels are the same as in the studies.
"""

import hashlib
import io
import json
import re
import sys
from typing import NamedTuple

import numpy as np
from PIL import Image

from benchmarks.studies.image_set import put_together, write_table

SIDE = 64
FEWEST = 5  # drawings of a class
COLUMNS = ("split", "class", "name", "group", "subgroup", "n", "vendors")
# Checksum of all pixels, class by class and vendor by vendor.
CHECKSUM = "fa0c1e2436429cf8690c20b213a2ebbe9cc51950dcd7c069e56ec3a2a9dae9a0"
# Names, groups and subgroups of all emoji, from Unicode's emoji-test.txt.
NAMES = "twemoji-atlas/emoji-info.json"


class Drawings(NamedTuple):
    """The drawings of a vendor: a folder of a checkout and the pattern of its file names."""

    folder: str
    pattern: str


# The order matters: the first of two near-duplicates stays.
VENDORS = {
    "twemoji": Drawings("twemoji-assets/assets/72x72", r"(.+)\.png"),
    "noto": Drawings("noto-emoji/png/128", r"emoji_u(.+)\.png"),
    "openmoji": Drawings("openmoji-bitmaps/128x128_png32", r"(.+)\.png"),
    "fluent3d": Drawings("fluentui-emoji-unicode/assets", r"(.+)_3d\.png"),
    "emojitwo": Drawings("emojitwo/png/128", r"(.+)\.png"),
    "blobmoji": Drawings("blobmoji/png/128", r"emoji_u(.+)\.png"),
    "fxemoji": Drawings("fxemoji/svgs/FirefoxEmoji", r"u([0-9A-F]{4,5})-\w+\.svg"),
}
# Whole subgroups from each Unicode group, as drawn at random for the studies.
TEST_SUBGROUPS = {
    *("face-smiling", "face-unwell", "cat-face", "monkey-face", "emotion"),
    *("hand-fingers-partial", "hand-single-finger", "hands", "person-role", "person-sport", "family", "person-symbol"),
    *("animal-bird", "animal-amphibian", "animal-reptile", "animal-bug", "plant-flower", "plant-other"),
    *("food-prepared", "food-marine", "drink", "dishware"),
    *("place-map", "place-geographic", "place-building", "transport-water", "transport-air", "time"),
    *("event", "award-medal", "arts & crafts"),
    *("sound", "music", "phone", "computer", "book-paper", "money", "mail", "lock", "science", "household"),
    *("other-object", "transport-sign", "zodiac", "math", "punctuation", "currency", "keycap", "alphanum"),
}
# Man, woman, female sign, male sign, and the joiner of combined emoji.
GENDERED, JOINED = {"1f468", "1f469", "2640", "2642"}, "200d"


def main():
    put_together(__doc__, "sources", "folder of the checkouts", write_set, CHECKSUM)


def write_set(sources, out):
    """Writes the images and the tables, and returns the numbers of images and classes and a checksum."""
    files = {vendor: files_of(sources, vendor) for vendor in VENDORS}
    rows, captions, checksum = [], [], hashlib.sha256()
    for code, emoji in emojis(sources):
        drawings = drawings_of(code, files)
        if len(drawings) < FEWEST:
            continue
        split = "test" if emoji["subgroup"] in TEST_SUBGROUPS else "train"
        for vendor, drawing in drawings.items():
            path = out / split / code / f"{vendor}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            drawing.save(path)
            captions.append([path.relative_to(out), code, emoji["name"], split])
            checksum.update(f"{split}/{emoji['subgroup']}/{code}/{vendor}".encode() + drawing.tobytes())
        about = [emoji["name"], emoji["group"], emoji["subgroup"]]
        rows.append([split, code, *about, len(drawings), " ".join(drawings)])
    write_table(out / "classes.csv", COLUMNS, rows)
    write_table(out / "names.csv", ("path", "label", "caption", "split"), captions)
    return sum(row[5] for row in rows), len(rows), checksum.hexdigest()


def files_of(sources, vendor):
    """Returns a dictionary from the code of each emoji to a vendor's drawing."""
    folder, pattern = VENDORS[vendor]
    folder = sources / folder
    if not folder.is_dir():
        sys.exit(f"The folder {folder} does not exist. Check out the repositories that docs/datasets.md lists.")
    named = ((re.fullmatch(pattern, path.name), path) for path in sorted(folder.iterdir()))
    return {code_of(match[1].split("_" if "_" in match[1] else "-")): path for match, path in named if match}


def code_of(parts):
    """Returns the code points of an emoji without the variation selector, which some vendors omit."""
    return "-".join(part.lower().zfill(4) for part in parts if part.lower() != "fe0f")


def emojis(sources):
    """Returns the name, group and subgroup of each emoji that can be in the dataset, by its code.

    The dataset excludes flags, components, skin tones, gendered forms and families. It also excludes the subgroup
    `geometric`, because its emoji differ only in size.
    """
    for emoji in json.loads((sources / NAMES).read_text(encoding="utf-8")):
        code = code_of([f"{ord(character):x}" for character in emoji["char"]])
        parts = set(code.split("-"))
        gendered = JOINED in parts and parts & GENDERED
        left_out = emoji["group"] in ("Flags", "Component") or emoji["subgroup"] == "geometric"
        if not (gendered or left_out or "skin tone" in emoji["name"]):
            yield code, emoji


def drawings_of(code, files):
    """Returns the drawings of an emoji by vendor, without near-duplicates of an earlier one."""
    drawings = {vendor: draw(paths[code]) for vendor, paths in files.items() if code in paths}
    kept = {}
    for vendor, drawing in drawings.items():
        content = content_of(drawing)
        if all(np.sqrt(np.mean((content - other) ** 2)) >= 15.0 for other in kept.values()):
            kept[vendor] = content
    return {vendor: drawings[vendor] for vendor in kept}


def draw(path):
    """Returns a drawing in the middle of a white RGB square."""
    contents = render(path) if path.suffix == ".svg" else path.read_bytes()
    drawing = Image.open(io.BytesIO(contents)).convert("RGBA")
    side = max(drawing.size)
    square = Image.new("RGBA", (side, side), "white")
    square.alpha_composite(drawing, ((side - drawing.width) // 2, (side - drawing.height) // 2))
    return square.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def render(path):
    """Renders an SVG as a PNG with a width of 128 pixels."""
    # Part of the extra `bench`. Single pixels depend on its version.
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_path=str(path), width=128))


def content_of(drawing):
    """Returns the pixels of the box that is not white, scaled to one size."""
    ink = np.asarray(drawing).min(axis=2) < 255 - 8
    if not np.any(ink):
        return np.full((48, 48, 3), 255.0)
    down, across = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    box = (across[0], down[0], across[-1] + 1, down[-1] + 1)
    return np.asarray(drawing.crop(box).resize((48, 48), Image.Resampling.BILINEAR), np.float64)


if __name__ == "__main__":
    main()
