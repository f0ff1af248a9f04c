"""The emoji set is put together from checkouts by its rules; its tables, and the command of image sets."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import emoji_set, emoji_tables, omniglot_set

NAMES = {
    "twemoji": "{}.png",
    "noto": "emoji_u{}.png",
    "openmoji": "{}.png",
    "fluent3d": "{}_3d.png",
    "emojitwo": "{}.png",
    "blobmoji": "emoji_u{}.png",
    "fxemoji": "u{}-drawing.svg",
}


def drawing(seed, width=40, height=40, shift=0, change=0):
    """A PNG with random colors in the middle, and nothing around them; or shifted, or with other colors."""
    pixels = np.zeros((height, width, 4), np.uint8)
    pixels[8:-8, 8:-8, :3] = np.random.default_rng(seed).integers(0, 255, 3)
    pixels[8:-8, 8:-8, 3] = 255
    pixels[12:-12, 12:-12, :3] = np.random.default_rng([1, *np.ravel(seed)]).integers(0, 255, 3)
    colors = pixels[..., :3].astype(int)
    pixels[..., :3] = np.where(colors > 127, colors - change, colors + change)
    pixels = np.roll(pixels, shift, axis=1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


@pytest.fixture
def sources(tmp_path):
    """Checkouts with folders, but without drawings and names."""
    for vendor in emoji_set.VENDORS.values():
        (tmp_path / vendor.folder).mkdir(parents=True)
    (tmp_path / emoji_set.NAMES).parent.mkdir()
    return tmp_path


def add(sources, char, vendors, seeds=None, **last):
    """Adds drawings of an emoji; `last` is of the last one alone."""
    for place, vendor in enumerate(vendors):
        code = "-".join(f"{ord(each):04x}" for each in char)
        code = code.replace("-", "_") if vendor in ("noto", "blobmoji") else code
        code = code.upper() if vendor in ("openmoji", "fxemoji") else code
        path = sources / emoji_set.VENDORS[vendor].folder / NAMES[vendor].format(code)
        more = last if place == len(vendors) - 1 else {}
        path.write_bytes(drawing(seeds[place] if seeds else [ord(char[0]), place], **more))


def write_names(sources, emojis):
    names = [
        {"char": char, "name": name, "group": group, "subgroup": subgroup} for char, name, group, subgroup in emojis
    ]
    (sources / emoji_set.NAMES).write_text(json.dumps(names), encoding="utf-8")


def written(sources, out):
    images, classes, checksum = emoji_set.write_set(sources, out)
    rows = list(csv.DictReader((out / "classes.csv").read_text().splitlines()))
    assert (images, classes) == (len(list(out.glob("*/*/*.png"))), len(rows))
    named = list(csv.DictReader((out / "names.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["path"] for row in named} == {str(path.relative_to(out)) for path in out.glob("*/*/*.png")}
    about = {row["class"]: (row["name"], row["split"]) for row in rows}
    assert all((row["caption"], row["split"]) == about[row["label"]] for row in named)
    return {row["class"]: row for row in rows}, checksum


def test_the_rules(sources, monkeypatch, tmp_path):
    monkeypatch.setattr(emoji_set, "render", lambda path: path.read_bytes())
    every, five = list(emoji_set.VENDORS), list(emoji_set.VENDORS)[:5]
    add(sources, "😀", every)
    add(sources, "5\ufe0f\u20e3", five)
    add(sources, "🐢", every[:4])
    # The sixth drawing is nearly the second, so that five are left; of the other class four are.
    add(sources, "🐔", every[:6], seeds=[1, 2, 3, 4, 5, 2], shift=5, change=13)
    add(sources, "🐧", five, seeds=[1, 2, 3, 2, 5])
    # Of this one the fifth is different enough.
    add(sources, "🐦", five, seeds=[1, 2, 3, 4, 2], change=17)
    for char in ("👩\u200d🔬", "🏃\u200d♀\ufe0f", "👍🏽", "🔴", "🏁"):
        add(sources, char, five)
    add(sources, "♀\ufe0f", five)
    write_names(
        sources,
        [
            ("😀", "grinning face", "Smileys & Emotion", "face-smiling"),
            ("5\ufe0f\u20e3", "keycap: 5", "Symbols", "keycap"),
            ("🐢", "turtle", "Animals & Nature", "animal-reptile"),
            ("🐔", "chicken", "Animals & Nature", "animal-mammal"),
            ("🐧", "penguin", "Animals & Nature", "animal-bird"),
            ("🐦", "bird", "Animals & Nature", "animal-bird"),
            ("👩\u200d🔬", "woman scientist", "People & Body", "person-role"),
            ("🏃\u200d♀\ufe0f", "woman running", "People & Body", "person-activity"),
            ("👍🏽", "thumbs up: medium skin tone", "People & Body", "hand-fingers-closed"),
            ("🔴", "red circle", "Symbols", "geometric"),
            ("🏁", "chequered flag", "Flags", "flag"),
            ("♀\ufe0f", "female sign", "Symbols", "gender"),
        ],
    )
    rows, checksum = written(sources, tmp_path / "out")
    assert {code: row["split"] for code, row in rows.items()} == {
        "1f600": "test",
        "0035-20e3": "test",
        "1f414": "train",
        "1f426": "test",
        "2640": "train",
    }
    assert rows["1f600"]["vendors"] == " ".join(every)
    assert rows["1f414"]["vendors"] == " ".join(five)
    assert rows["0035-20e3"]["subgroup"] == "keycap"
    assert written(sources, tmp_path / "again") == (rows, checksum)
    monkeypatch.setattr(emoji_set, "TEST_SUBGROUPS", {"keycap"})
    assert written(sources, tmp_path / "divided")[1] != checksum
    monkeypatch.undo()
    monkeypatch.setattr(emoji_set, "render", lambda path: path.read_bytes())
    add(sources, "😀", ["noto"], seeds=[99])
    assert written(sources, tmp_path / "changed")[1] != checksum


def test_drawings_are_in_the_middle_of_a_white_square(tmp_path):
    path = tmp_path / "wide.png"
    path.write_bytes(drawing(0, width=128, height=64))
    pixels = np.asarray(emoji_set.draw(path))
    assert pixels.shape == (64, 64, 3)
    ink = np.flatnonzero((pixels < 200).any(axis=(1, 2)))
    # 64 of 128 rows, half of them above: 16 rows of white, then 4 of the drawing's own border.
    assert (ink[0], ink[-1]) == (20, 43)
    np.testing.assert_array_equal(pixels[:16], 255)


def test_a_missing_checkout_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"The folder .*twemoji-assets/assets/72x72 does not exist\. Check out"):
        emoji_set.write_set(tmp_path, tmp_path / "out")


SETS = [(emoji_set, "sources"), (omniglot_set, "source")]


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("image_set, flag", SETS)
def test_it_tells_whether_the_set_is_that_of_the_studies(image_set, flag, equal, monkeypatch, tmp_path, capsys):
    checksum = image_set.CHECKSUM if equal else "abc"
    monkeypatch.setattr(image_set, "write_set", lambda source, out: (8039, 1226, checksum))
    monkeypatch.setattr("sys.argv", ["image_set", f"--{flag}={tmp_path}", f"--out={tmp_path / 'set'}"])
    if equal:
        image_set.main()
    else:
        with pytest.raises(SystemExit, match="differ from the dataset of the studies.* Received: abc"):
            image_set.main()
    out = capsys.readouterr().out
    assert out.startswith("Wrote 8,039 images of 1,226 classes to ")
    assert ("are the same as in the studies" in out) == equal


def test_a_folder_that_exists_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["omniglot_set", f"--source={tmp_path}", f"--out={tmp_path}"])
    with pytest.raises(SystemExit, match=r"already exists\. Use a new folder"):
        omniglot_set.main()


@pytest.fixture
def tables(tmp_path, monkeypatch):
    rows = [("train", "1f600", "face", "smileys"), ("train", "1f697", "car", "travel")]
    rows += [("test", "1f43b", "bear", "animals"), ("test", "1f331", "plant", "nature")]
    for split, name, _, _ in rows:
        (tmp_path / split / name).mkdir(parents=True)
        for vendor in ("noto", "twemoji", "openmoji"):
            (tmp_path / split / name / f"{vendor}.png").touch()
    lines = ["split,class,subgroup,group", *map(",".join, rows)]
    (tmp_path / "classes.csv").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "argv", ["emoji_tables", f"--data_dir={tmp_path}"])
    emoji_tables.main()
    return {name: list(csv.DictReader((tmp_path / f"{name}.csv").open())) for name in ("pairs", "tags")}


def test_each_image_has_a_pair_of_its_class_and_one_of_another_in_its_part(tables):
    assert len(tables["pairs"]) == 24
    for number, row in enumerate(tables["pairs"]):
        (split, name, image), (other_split, other, other_image) = row["a"].split("/"), row["b"].split("/")
        assert split == other_split == row["split"]
        assert (row["same"] == "1") == (name == other) == (number % 2 == 0)
        assert name != other or image != other_image
    assert len({row["a"] for row in tables["pairs"]}) == 12


def test_each_image_has_its_class_subgroup_and_group(tables):
    assert len(tables["tags"]) == 12
    assert tables["tags"][0] == {"path": "train/1f600/noto.png", "label": "1f600|face|smileys", "split": "train"}
