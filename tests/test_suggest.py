"""`python -m tfdml.suggest`: images to label, and a page that writes the table that training reads."""

import base64
import io
import json
import re
import shlex
import time

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import labels_saved as study
from docs.browser import chromium, what_is_missing
from pipelines.datasets import load
from tests.commands import ROOT, assert_one_error, last_json, ok, run
from tests.serving_fixtures import exported, picture
from tfdml.reporting.labeling_page import write_labeling_page
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
from tfdml.serving.index.folder import IndexFolder

PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("\n## Label what matters next\n") :]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("suggest")
    for number in range(30):
        path = root / "photos" / (f"class {number % 3}" if number < 9 else "") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    # Of these two, only one is proposed.
    (root / "photos" / "copy.png").write_bytes(picture(20))
    return root


@pytest.fixture(scope="module")
def index(folder):
    index_images(folder / "photo_index", ImageList.of(str(folder / "photos")), model=exported())
    return folder / "photo_index"


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])


@pytest.mark.nightly
def test_the_commands_of_the_page_run(folder, index, tmp_path):
    commands = [shlex.split(line)[2:] for line in SECTION.splitlines() if line.startswith("python -m tfdml")]
    assert [module for module, *_ in commands] == ["tfdml.suggest", "tfdml.index"]
    (module, *flags), (_, *adding) = commands
    flags = [re.sub(r"=(photo_index)$", rf"={folder}/\1", flag) for flag in flags]
    flags = [flag.replace("=suggestions", f"={tmp_path}/suggestions") for flag in flags]
    # The untrained network embeds all photos nearly equally.
    done = ok(module, *flags, "--duplicates=0.99999")
    found = last_json(done)
    assert (found["unlabeled"], found["labeled"]) == (22, 9) and 15 <= len(found["images"]) <= 21
    assert sum(each["path"].endswith(("/20.png", "/copy.png")) for each in found["images"]) <= 1
    assert f"Proposed {len(found['images'])} of 22 images without a label. The others are duplicates" in done.stdout
    assert f"Next: python -m tfdml.index --images=labels.csv --out={index} --add --update" in done.stdout
    data = data_of(tmp_path / "suggestions" / "labels.html")
    assert data["choices"] == ["class 0", "class 1", "class 2"] and len(data["paths"]) == 31
    assert [data["paths"][each["row"]] for each in data["asked"]] == [each["path"] for each in found["images"]]
    assert all(data["labels"][each["row"]] is None and each["image"].startswith("data:") for each in data["asked"])
    assert {each["proposed"] for each in data["asked"]} <= set(data["choices"])
    # The downloaded table, as a person would leave it, goes into the index and into a dataset.
    rows = [f"{path},{data['labels'][row] or 'new'}" for row, path in enumerate(data["paths"])]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]))
    adding = [re.sub(r"=(photo_index)$", rf"={folder}/\1", flag) for flag in adding]
    ok("tfdml.index", *[flag.replace("=labels.csv", f"={tmp_path}/labels.csv") for flag in adding])
    rows = IndexFolder(index).read_rows(IndexFolder(index).manifest())
    assert sum(label == "new" for label, gone in zip(rows.labels, rows.deleted, strict=True) if not gone) == 22
    dataset = load(f"csv(path='{tmp_path}/labels.csv', test_classes=0.3)")
    assert len(dataset.train) + len(dataset.test) == 31
    assert_one_error(run(module, f"--index={index}", f"--out={tmp_path}/more"), "All 31 images in the index")


def test_wrong_flags_are_one_line(tmp_path):
    assert_one_error(run("tfdml.suggest"), "--index is missing. Set it to the folder of an index")
    assert_one_error(run("tfdml.suggest", f"--index={tmp_path}"), "is not a tfdml index")


def labeled_again(index, page, labels):
    """Writes a page's table with labels for the first images, as its script does, and adds it to the index."""
    data = data_of(page)
    rows = [
        ",".join(map(str, [data.get("files", data["paths"])[row], *data.get("boxes", {row: []})[row], label]))
        for row, label in enumerate(labels)
    ]
    table = page.with_name("labels.csv")
    table.write_text("\n".join([",".join(["path", *data.get("columns", []), "label"]), *rows]))
    return ok("tfdml.index", f"--images={table}", f"--out={index}", "--add", "--update")


def test_images_inside_an_index_are_labeled_in_place(tmp_path):
    """An index stores images of archives itself, and the table has the paths of these copies."""
    images = np.array([picture(number) for number in range(4)], object)
    index_images(tmp_path / "index", ImageList([f"images/{n}" for n in range(4)], [None] * 4, images), model=exported())
    found = last_json(ok("tfdml.suggest", f"--index={tmp_path}/index", f"--out={tmp_path}", "--duplicates=1"))
    assert sorted(each["path"] for each in found["images"]) == [f"{tmp_path}/index/images/{n}" for n in range(4)]
    (first, *_) = data_of(tmp_path / "labels.html")["asked"]
    assert first["image"].startswith("data:") and first["proposed"] == first["note"] == ""
    done = labeled_again(tmp_path / "index", tmp_path / "labels.html", ["mug", "cup"])
    assert "Indexed 4 images" in done.stdout and f"{tmp_path}/index/images/0" in done.stdout
    folder = IndexFolder(tmp_path / "index")
    rows = folder.read_rows(folder.manifest())
    labels = {rows.paths[row]: rows.labels[row] for row in np.flatnonzero(~rows.deleted)}
    assert labels == {"images/0": "mug", "images/1": "cup", "images/2": None, "images/3": None}
    assert (tmp_path / "index" / "images" / "0").read_bytes() == images[0]


def test_objects_are_shown_and_labeled(tmp_path):
    (tmp_path / "shelf.png").write_bytes(picture(0, 20, 40))
    names = [f"{tmp_path}/shelf.png#xywh={left},0,20,20" for left in (0, 20)]
    index_images(tmp_path / "index", ImageList(names, [None, None]), model=exported())
    ok("tfdml.suggest", f"--index={tmp_path}/index", f"--out={tmp_path}", "--duplicates=1")
    data = data_of(tmp_path / "labels.html")
    sizes = [Image.open(io.BytesIO(base64.b64decode(each["image"].split(",")[1]))).size for each in data["asked"]]
    # The untrained network embeds both objects nearly equally.
    assert {*sizes} == {(20, 20)} and data["boxes"] == [[0, 0, 20, 20], [20, 0, 40, 20]]
    assert "Indexed 2 images" in labeled_again(tmp_path / "index", tmp_path / "labels.html", ["tea", "milk"]).stdout
    folder = IndexFolder(tmp_path / "index")
    rows = folder.read_rows(folder.manifest())
    live = np.flatnonzero(~rows.deleted)
    assert {rows.paths[row]: rows.labels[row] for row in live} == dict(zip(names, ("tea", "milk"), strict=True))


def test_an_index_of_tiles_is_refused(tmp_path):
    (tmp_path / "photo.png").write_bytes(picture(0, 40, 40))
    index_images(tmp_path / "index", ImageList([f"{tmp_path}/photo.png"], [None]), model=exported(), tiles="2x2")
    assert_one_error(run("tfdml.suggest", f"--index={tmp_path}/index"), "has tiles (2x2)")


def test_texts_on_the_page_are_escaped(tmp_path):
    wrong = "</script><script>alert(1)</script>"
    page = write_labeling_page(tmp_path, wrong, [wrong], [None], [(0, wrong, wrong, [])], lambda row: None)
    text = page.read_text()
    assert "alert(1)</script>" not in text and data_of(page)["asked"][0]["proposed"] == wrong
    assert not re.search(r"https?://", text)


@pytest.mark.nightly
def test_labels_are_confirmed_and_corrected_by_keyboard(tmp_path):
    if what_is_missing():
        pytest.skip(what_is_missing())
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    names = [f"/photos/{number}.jpg" for number in range(5)]
    asked = [(row, "mug", "", [0]) for row in (1, 2, 3)]
    page = write_labeling_page(tmp_path, "Labels", names, ["cup", None, None, None, "bowl"], asked, lambda row: None)
    with chromium() as browser:
        downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
        browser.execute_cdp_cmd("Page.setDownloadBehavior", downloads)
        browser.get(page.as_uri())

        def press(*pressed):
            browser.switch_to.active_element.send_keys(*pressed)

        def state():
            return browser.find_element("id", "state").get_property("value")

        assert state() == "Image 1 of 3, 0 labeled"
        press(keys.ENTER)
        press('tea, "pot"', keys.ENTER)
        press(keys.ESCAPE)
        assert state() == "Done: 2 of 3 labeled. Download the table."
        press(keys.ARROW_UP)
        press(keys.ARROW_UP)
        assert browser.find_element("id", "label").get_property("value") == 'tea, "pot"'
        # The browser may store what the page has written only after a moment.
        for _ in range(20):
            time.sleep(0.2)
            browser.refresh()
            if "2 labeled" in state():
                break
        # The page resumes at the first image without a label.
        assert state() == "Image 3 of 3, 2 labeled"
        press(keys.CONTROL, "s")
        for _ in range(100):
            if (tmp_path / "labels.csv").exists():
                break
            time.sleep(0.1)
        assert not [each for each in browser.get_log("browser") if each["level"] == "SEVERE"]
    expected = ["path,label", "/photos/0.jpg,cup", "/photos/1.jpg,mug", '/photos/2.jpg,"tea, ""pot"""']
    assert (tmp_path / "labels.csv").read_text().splitlines() == [*expected, "/photos/4.jpg,bowl"]


@pytest.mark.nightly
def test_the_table_of_objects_has_their_boxes(tmp_path):
    if what_is_missing():
        pytest.skip(what_is_missing())
    names = ["/a.jpg#xywh=0,10,20,30", "/a.jpg#xywh=percent:25,0,50,100"]
    page = write_labeling_page(tmp_path, "Labels", names, ["tea", None], [(1, "tea", "", [0])], lambda row: None)
    with chromium() as browser:
        browser.get(page.as_uri())
        assert not browser.find_element("id", "image").is_displayed()
        browser.execute_script("answer('mug')")
        assert browser.execute_script("return table()").splitlines() == [
            "path,x1,y1,x2,y2,label",
            "/a.jpg,0,10,20,40,tea",
            "/a.jpg,0.25,0,0.75,1,mug",
        ]


def test_the_table_of_the_page_is_the_record():
    assert study.table(json.loads(study.RECORD.read_text())) in SECTION


@pytest.mark.slow
def test_the_images_are_jpeg_files(tmp_path):
    pixels = np.zeros((900, 700, 3), np.uint8)
    page = write_labeling_page(tmp_path, "Labels", ["a", "b"], ["x", None], [(1, "x", "", [0])], lambda row: pixels)
    (asked,) = data_of(page)["asked"]
    for source in (asked["image"], asked["near"][0]["image"]):
        assert base64.b64decode(source.removeprefix("data:image/jpeg;base64,"))[:2] == b"\xff\xd8"
