"""The command itself: its page in a browser, its answers to a client, and how it ends."""

import base64
import io
import json
import signal
import urllib.error
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs.browser import chromium, what_is_missing
from tests.commands import Forked, assert_one_error, run
from tests.serving.http.service import TOKEN, Service
from tests.serving.index.test_indexing import write_pictures
from tests.serving_fixtures import exported, exported_towers, picture
from tfdml.serving import Searcher
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images

pytest.importorskip("fastapi", reason="the extra serve is not installed; setup.py lists it")
pytestmark = pytest.mark.slow

# Drops a file on the page as a mouse would; drivers cannot.
DROP = """
const bytes = Uint8Array.from(atob(arguments[0]), letter => letter.charCodeAt(0)), files = new DataTransfer();
files.items.add(new File([bytes], "dropped.png", {type: arguments[1]}));
document.getElementById("drop").dispatchEvent(new DragEvent("drop", {bubbles: true, dataTransfer: files}));
"""
# Copies an image, so that it can be pasted by keyboard; calls back when it is there.
COPY = """
const bytes = Uint8Array.from(atob(arguments[0]), letter => letter.charCodeAt(0)), done = arguments[1];
const image = new ClipboardItem({"image/png": new Blob([bytes], {type: "image/png"})});
navigator.clipboard.write([image]).then(() => done("copied"), error => done(String(error)));
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"), range(12))


@pytest.fixture(scope="module")
def index(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "index"
    index_images(out, ImageList.of(photos), model=exported())
    return out


@pytest.fixture(scope="module")
def browser():
    if what_is_missing():
        pytest.skip(what_is_missing())
    with chromium() as driver:
        driver.set_window_size(1100, 800)
        yield driver


def test_the_page_finds_neighbors(browser, index, photos, tmp_path):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 10)
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    service = Service(index, environment={"TFDML_TOKEN": TOKEN})
    try:
        browser.get(service.address)

        def find(selector):
            return browser.find_elements("css selector", selector)

        def shows(count, first):
            """So many neighbors are there with their pictures, the nearest one first."""
            pictures = find("#found img")
            if len(pictures) != count or not all(each.get_property("naturalWidth") for each in pictures):
                return False
            nearest = find("#found li")[0].text.split("\n")
            return nearest == ["1.000", "odd" if int(first) % 2 else "even", f"{first}.png"]

        # The token, by keyboard.
        wait.until(lambda _: find("#token")[0].is_displayed())
        find("#token")[0].send_keys(TOKEN + keys.ENTER)
        wait.until(lambda _: not find("#token")[0].is_displayed())
        # The model has no text tower.
        assert not find("#words")[0].is_displayed()
        # A chosen file, then a dropped one, then a click on a neighbor.
        find("#file")[0].send_keys(str(photos / "odd" / "03.png"))
        wait.until(lambda _: shows(10, "03"))
        assert find("#state")[0].text == "10 nearest images"
        browser.execute_script(DROP, base64.b64encode(picture(6)).decode(), "image/png")
        wait.until(lambda _: shows(10, "06"))
        browser.save_screenshot(str(tmp_path / "page.png"))
        # A pasted one.
        assert browser.execute_async_script(COPY, base64.b64encode(picture(9)).decode()) == "copied"
        find("body")[0].send_keys(keys.CONTROL + "v")
        wait.until(lambda _: shows(10, "09"))
        second = find("#found li")[1].text.split("\n")[-1].removesuffix(".png")
        find("#found button")[1].send_keys(keys.ENTER)
        wait.until(lambda _: shows(10, second))
        find("#k option")[0].click()
        wait.until(lambda _: shows(5, second))
        # A filter, and the label by vote; the model has no threshold.
        find("#where")[0].send_keys("label == 'even'" + keys.TAB)
        wait.until(lambda _: find("#state")[0].text == "5 nearest images of 6 that match the filter")
        assert find("#label")[0].text.startswith("even (similarity of its nearest neighbor: ")
        assert find("#threshold")[0].text == "None, so all neighbors are accepted"
        assert browser.get_log("browser") == []
        find("#where")[0].send_keys("=" + keys.TAB)
        wait.until(lambda _: find("#error")[0].is_displayed() and not find("#answer")[0].is_displayed())
        find("#where")[0].clear()
        # What is no image is told; the console tells of the answer, too.
        browser.execute_script(DROP, base64.b64encode(b"text").decode(), "text/plain")
        wait.until(lambda _: "This file is not an image" in find("#error")[0].text)
        browser.execute_script(DROP, base64.b64encode(b"text").decode(), "image/png")
        wait.until(lambda _: "The image is not a readable image" in find("#error")[0].text)
        browser.set_window_size(500, 800)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        done = service.kill(signal.SIGTERM)
    assert done.returncode == -signal.SIGTERM and "Traceback" not in done.stderr, done.stderr


@pytest.mark.nightly
def test_the_page_draws_boxes_and_searches_for_a_part(browser, tmp_path):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 10)
    actions = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
    squares = [np.asarray(Image.open(io.BytesIO(picture(seed))).convert("RGB").resize((40, 40))) for seed in range(4)]
    Image.fromarray(np.hstack(squares)).save(tmp_path / "shelf.png")
    rows = [f"{tmp_path}/shelf.png,object {each},{40 * each},0,{40 * each + 40},40" for each in range(4)]
    (tmp_path / "objects.csv").write_text("\n".join(["path,label,x1,y1,x2,y2", *rows]))
    index_images(tmp_path / "index", ImageList.of(tmp_path / "objects.csv"), model=exported())
    service = Service(tmp_path / "index")
    # What earlier tests have left there.
    browser.get_log("browser")
    try:
        browser.get(service.address)

        def find(selector):
            return browser.find_elements("css selector", selector)

        def first_is(label):
            marks = [each for each in find("#found .photo i") if each.is_displayed()]
            return len(marks) == 4 and find("#found li")[0].text.split("\n")[:2] == ["1.000", label]

        def place_of(mark, photo):
            mark, photo = (each.rect for each in (mark, photo))
            return (mark["x"] - photo["x"]) / photo["width"], mark["width"] / photo["width"]

        find("#file")[0].send_keys(str(tmp_path / "shelf.png"))
        wait.until(lambda _: len(find("#found .photo i")) == 4)
        assert not find("#whole")[0].is_displayed() and not find("#query + i")[0].is_displayed()
        # The second object, by mouse.
        query = find("#query")[0]
        step = query.size["width"] / 4
        start = actions(browser).move_to_element_with_offset(query, -step + 1, 2 - query.size["height"] // 2)
        start.click_and_hold().move_by_offset(int(step) - 2, query.size["height"] - 4).release().perform()
        wait.until(lambda _: first_is_near(find, "object 1"))
        left, width = place_of(find("#query + i")[0], query)
        assert left == pytest.approx(0.25, abs=0.05) and width == pytest.approx(0.25, abs=0.06)
        # A neighbor is drawn with its box, and a click searches for that part.
        number = next(place for place, each in enumerate(find("#found li")) if each.text.split("\n")[1] == "object 3")
        mark = find("#found li")[number].find_element("css selector", ".photo i")
        left, width = place_of(mark, find("#found li")[number].find_element("css selector", "img"))
        assert left == pytest.approx(0.75, abs=0.05) and width == pytest.approx(0.25, abs=0.06)
        find("#found button")[number].click()
        wait.until(lambda _: first_is("object 3"))
        assert find("#whole")[0].is_displayed()
        browser.save_screenshot(str(tmp_path / "page.png"))
        find("#whole")[0].click()
        wait.until(lambda _: not find("#query + i")[0].is_displayed())
        assert browser.get_log("browser") == []
    finally:
        service.kill(signal.SIGTERM)


def first_is_near(find, label):
    found = find("#found li")
    return bool(found) and label in found[0].text and find("#query + i")[0].is_displayed()


@pytest.mark.nightly
def test_the_page_searches_by_text(browser, photos, tmp_path):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 10)
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    index_images(tmp_path / "index", ImageList.of(photos), model=exported_towers())
    searcher = Searcher(tmp_path / "index")
    (of_text,), (of_both,) = (
        searcher.search_vectors(searcher.embed_query(image, "a red van", weight))
        for image, weight in ((None, 0.5), (picture(3), 0.55))
    )
    service = Service(tmp_path / "index")
    # What earlier tests have left there.
    browser.get_log("browser")
    try:
        browser.get(service.address)

        def find(selector):
            return browser.find_elements("css selector", selector)[0]

        def shows(neighbors):
            names = [each.text.split("\n")[-1] for each in browser.find_elements("css selector", "#found li")]
            return names == [Path(each.path).name for each in neighbors]

        wait.until(lambda _: find("#words").is_displayed())
        assert not find("#frame").is_displayed() and not find("#weights").is_displayed()
        find("#text").send_keys("a red van" + keys.ENTER)
        wait.until(lambda _: shows(of_text))
        assert not find("#voted").is_displayed() and not find("#frame").is_displayed()
        # An image is added, the text gets more weight, and the image is removed again.
        find("#file").send_keys(str(photos / "odd" / "03.png"))
        wait.until(lambda _: find("#weights").is_displayed())
        find("#weight").send_keys(keys.ARROW_RIGHT)
        wait.until(lambda _: shows(of_both))
        browser.save_screenshot(str(tmp_path / "page.png"))
        find("#remove").click()
        wait.until(lambda _: shows(of_text))
        # A click on a neighbor searches for it alone.
        find("#found button").click()
        wait.until(lambda _: find("#voted").is_displayed())
        assert find("#text").get_property("value") == "" and not find("#weights").is_displayed()
        assert find("#found strong").text == "1.000"
        # Without an image and a text, nothing is shown.
        find("#remove").click()
        wait.until(lambda _: not browser.find_elements("css selector", "#found li"))
        assert not find("#answer").is_displayed() and find("#state").text == ""
        assert browser.get_log("browser") == []
    finally:
        service.kill(signal.SIGTERM)


@pytest.mark.nightly
def test_the_page_shows_the_threshold_in_force(browser, index, photos):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 10)
    service = Service(index, flags=["--threshold=0.99"])
    try:
        browser.get(service.address)
        browser.find_element("css selector", "#file").send_keys(str(photos / "odd" / "03.png"))
        wait.until(lambda _: browser.find_element("css selector", "#answer").is_displayed())
        texts = {
            name: browser.find_element("css selector", f"#{name}").text for name in ("label", "threshold", "state")
        }
    finally:
        service.kill(signal.SIGTERM)
    assert texts["threshold"] == "0.9900" and texts["state"].endswith(" below the threshold")
    assert texts["label"] == "odd (similarity of its nearest neighbor: 1.0000)"


def test_a_client_and_ctrl_c(index):
    service = Service(index)
    body = json.dumps({"b64": "aGVsbG8=", "k": 3}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        service.ask("search", body, **{"content-type": "application/json"})
    assert refused.value.code == 400 and "is not a readable image" in json.loads(refused.value.read())["error"]
    assert service.ask("health") == {"status": "ok", "token": False}
    port = service.address.split(":")[-1].strip("/")
    assert_one_error(
        run("tfdml.serve", f"--index={index}", f"--port={port}"), f"Cannot listen at 127.0.0.1, port {port}"
    )
    done = service.kill(signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_what_cannot_be_served(index):
    assert_one_error(run("tfdml.serve"), "--index is missing")
    refused = run("tfdml.serve", f"--index={index}", "--host=0.0.0.0")
    assert_one_error(refused, "--host=0.0.0.0 lets other machines in", "TFDML_TOKEN", "--allow_anonymous")
    spaces = Forked("tfdml.serve", f"--index={index}", environment={"TFDML_TOKEN": "a b"}).wait()
    assert_one_error(spaces, "TFDML_TOKEN must consist of printable ASCII")
