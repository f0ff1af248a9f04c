"""The page of a trained run, read as data and opened in a browser."""

import base64
import functools
import html
import json
import re
import shlex
import shutil

import keras
import numpy as np
import pytest

from docs.browser import chromium, what_is_missing
from tests.commands import PATIENCE, assert_one_error, run, scratch
from tests.run_helpers import result, straight_run

# Whether anything is drawn on each canvas over an image.
COLORED = """
    return Array.from(document.querySelectorAll(".covered canvas"), (canvas) =>
        canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0));
"""


@functools.cache
def report():
    """The page of the straight run, and its data."""
    path = scratch() / "one.html"
    done = run("tfdml.report", f"--run_dir={straight_run()}", "--only=page", f"--out={path}")
    wrote, following = done.stdout.splitlines()
    assert done.returncode == 0 and wrote == f"Wrote {path}", done.stderr
    assert following.startswith(f"Next: python -m tfdml.export --run_dir={straight_run()} --out=exported/")
    return path, *read(path)


@functools.cache
def comparison():
    """The page that compares the straight run and a copy with a model that gets other images right."""
    same, other, path = scratch() / "same", scratch() / "final <b>", scratch() / "two.html"
    shutil.copytree(straight_run(), same)
    shutil.copytree(straight_run(), other)
    model = keras.models.load_model(other / "final.keras")
    kernel = model.head.projection.kernel
    kernel.assign_add(np.random.default_rng(0).normal(scale=np.std(kernel), size=kernel.shape))
    model.save(other / "model.keras")
    (other / "result.json").unlink()
    done = run("tfdml.report", f"--run_dirs={straight_run()},{same}:{other}", f"--out={path}")
    assert done.returncode == 0, done.stderr
    return path, *read(path)


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.mark.slow
def test_the_page_has_what_the_run_has():
    _, text, data = report()
    best = result(straight_run())["best"]
    assert f"Best (step {best['step']:,})" in text and f"<td>{best['recall_at_1']:.1%}<small>" in text
    # The interval is the same in the model card and in result.json.
    low, high = result(straight_run())["intervals"]["recall_at_1"]
    assert f"<td>{best['recall_at_1']:.1%}<small>{100 * low:.1f} to {100 * high:.1f}" in text
    assert "<code>ranked_list(negative_temperature=20.0, final_negative_temperature=0.0)</code>" in text
    assert (
        f"<h1>{straight_run().name}: similarity search for toy cars with the backbone small, trained with ranked"
        in text
    )
    box = text.partition('<section id="next-steps"')[2].partition("</section>")[0]
    commands = [shlex.split(html.unescape(each)) for each in re.findall("<code>(.*?)</code>", box)]
    assert commands[0][0].startswith("--backbone=keras_applications(") and commands[1][2] == "tfdml.suspects"
    assert commands[2][:4] == ["python", "-m", "tfdml.export", f"--run_dir={straight_run()}"]
    for name in ("settings", "scores", "training", "queries-and-neighbors", "reproduce-this-run"):
        assert f'<section id="{name}"' in text
    assert "python -m tfdml.train" in text and "</svg>Recall@1</li>" in text
    versions = result(straight_run())["environment"]
    assert {"tfdml", "TensorFlow", "machine"} <= versions.keys()
    assert all(f"<dt>{name}</dt>" in text and version in text for name, version in versions.items())
    gallery = data["gallery"]
    assert gallery["kinds"] == ["Random", "Worst", "Best"] and "Random" in gallery["queries"][0]["kinds"]
    assert gallery["closeness"] == "cosine similarity"
    of_class = {row: image["class"] for row, image in gallery["images"].items()}
    for query in gallery["queries"]:
        (found,) = query["found"]
        close = [similarity for _, similarity, _ in found]
        assert len(found) == 8 and close == sorted(close, reverse=True) and -1 <= close[-1] <= close[0] <= 1.0001
        assert all(right == (of_class[str(row)] == of_class[str(query["row"])]) for row, _, right in found)
        assert query["row"] not in [row for row, *_ in found]
        assert len(query["places"]) == len(found)
    assert gallery["grid"] == [12, 12] and {tuple(image["seen"]) for image in gallery["images"].values()} == {
        (0, 0, 1, 1)
    }


def test_a_run_without_a_model_has_a_page(finished):
    for name in ("result.json", "model.keras"):
        (finished / name).unlink()
    done = run("tfdml.report", f"--run_dir={finished}")
    assert done.returncode == 0, done.stderr
    text, data = read(finished / "report" / "index.html")
    assert "not complete, and no process trains it: step 40 of 40" in text and "There is no model yet." in text
    assert "<dt>TensorFlow (of this report)</dt>" in text
    assert (
        "Resume the run where it stopped:" in text and f"--flagfile={finished}/flags.txt --run_dir={finished}<" in text
    )
    assert data["gallery"] is None and '<section id="training"' in text and 'id="queries-and-neighbors"' not in text


@pytest.mark.nightly
def test_a_comparison_tells_who_is_right():
    _, text, data = comparison()
    assert f"A: {straight_run().name} and 1 more" in text and text.count(" ± 0.0") and "has several runs" in text
    assert "B: final &lt;b&gt;" in text and "final <b>" not in text and "no process trains it" in text
    gallery = data["gallery"]
    assert len(gallery["models"]) == 2 and gallery["kinds"][-1] == "Random"
    # Curves of both are in the same charts. The first model explains similarities.
    figures = re.findall(r'class="chart">.*?</figure>', text, re.DOTALL)
    charts = [re.findall(r"</svg>([^<]*)</li>", figure) for figure in figures]
    assert [f"A: {straight_run().name} and 1 more", "B: final &lt;b&gt;"] in charts
    assert all(len(query["places"]) == len(query["found"][0]) for query in gallery["queries"])
    assert f"make them similar, for A: {straight_run().name} and 1 more." in text
    rows = text.split("Right in this run only")[1].split("</tr>")[1:3]
    best = result(straight_run())["best"]
    rights, alones = np.array([[int(cell) for cell in re.findall(r"<td>(\d+)</td>", row)] for row in rows]).T
    assert rights[0] == round(best["recall_at_1"] * best["queries"])
    assert alones.min() > 0 and rights[0] - rights[1] == alones[0] - alones[1]
    for number, (alone, kind) in enumerate(zip(alones, gallery["kinds"], strict=False)):
        shown = [query["found"] for query in gallery["queries"] if kind in query["kinds"]]
        assert len(shown) == min(alone, 40)
        assert all(found[number][0][2] and not found[1 - number][0][2] for found in shown)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_comparison_of_three_has_all_pairs(tmp_path):
    comparison()
    names = [straight_run(), scratch() / "same", scratch() / "final <b>"]
    done = run("tfdml.report", f"--run_dirs={','.join(map(str, names))}", f"--out={tmp_path / 'three.html'}")
    assert done.returncode == 0, done.stderr
    text, _ = read(tmp_path / "three.html")
    table = text.partition("Differences of all pairs")[2].partition("</table>")[0]
    assert re.findall(r'scope="row">(. − .)<', table) == ["B − A", "C − A", "C − B"]
    assert table.count("p = 1</small>") >= 1 and "Difference from" not in text


def test_what_cannot_be_reported(finished):
    assert_one_error(run("tfdml.report"), "Set --run_dir to the directory of a run, or --run_dirs")
    assert_one_error(run("tfdml.report", f"--run_dirs={finished}"), "--run_dirs must be A,B, or", str(finished))
    assert_one_error(run("tfdml.report", f"--run_dirs={finished}", "--only=page"), "--run_dirs and --only cannot both")


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium, which records the console messages of pages."""
    if what_is_missing():
        pytest.skip(what_is_missing())
    with chromium() as started:
        yield started


class Page:
    """A page from disk in a browser."""

    def __init__(self, browser, path):
        self.browser = browser
        browser.get(path.as_uri())

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def shown(self, selector="#queries > li"):
        return [each for each in self.all(selector) if each.is_displayed()]

    def text(self, selector):
        return self.browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)

    def choose(self, name, value):
        for option in self.all(f"select[name={name}] option"):
            if option.get_attribute("value") == value:
                option.click()

    def assert_chosen(self, count, of):
        shown = min(count, 12)
        assert self.text("#count") == f"{count} of {of} queries chosen, {shown} shown" and len(self.shown()) == shown

    def press(self, key):
        self.browser.switch_to.active_element.send_keys(key)

    def is_open(self):
        return self.all("#dialog")[0].get_attribute("open") is not None


@pytest.mark.nightly
def test_in_a_browser(browser):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    wait = pytest.importorskip("selenium.webdriver.support.wait")
    path, _, data = report()
    page, queries = Page(browser, path), data["gallery"]["queries"]
    images = data["gallery"]["images"]
    assert len(page.shown()) == 12 < len(queries)
    page.all("#more")[0].click()
    assert len(page.shown()) == min(24, len(queries))

    # A click opens the neighbors, with right and wrong in words; arrows go on; Escape closes, and the focus is back.
    page.shown()[0].click()
    assert page.is_open() and images[str(queries[0]["row"])]["class"] in page.text("#shown-title")
    for caption, (_, close, right) in zip(page.all("#shown li strong"), queries[0]["found"][0], strict=True):
        assert f"{'right' if right else 'wrong'}, {close:.3f}" in caption.text
    assert all(image.get_attribute("alt") and image.get_property("naturalWidth") for image in page.all("#shown img"))
    # The regions that make a neighbor similar are shown on both images, described in words, and hidden again.
    third = page.all(".why")[2]
    third.send_keys(keys.ENTER)
    told = page.text("#why")
    assert "query and neighbor 3 more similar" in told and third.get_attribute("aria-pressed") == "true"
    wait.WebDriverWait(browser, PATIENCE).until(lambda _: browser.execute_script(COLORED) == [True, True])
    page.all(".why")[0].click()
    assert "neighbor 1 " in page.text("#why") and len(page.all("canvas")) == 2
    page.all(".why")[0].click()
    assert page.text("#why") == "" and not page.all("canvas")
    page.press(keys.ARROW_RIGHT)
    assert page.text("#shown-title").startswith("Query 2 of ")
    page.press(keys.ESCAPE)
    assert not page.is_open()
    # The browser reports it a moment later.
    second = page.all("#queries button")[1]
    wait.WebDriverWait(browser, PATIENCE).until(lambda _: browser.switch_to.active_element == second)
    page.press(keys.ENTER)
    assert page.is_open() and page.text("#shown-title").startswith("Query 2 of ")
    page.all("#close")[0].click()

    # The list has what was chosen.
    page.choose("right", "wrong")
    wrong = [query for query in queries if not query["found"][0][0][2]]
    page.assert_chosen(len(wrong), len(queries))
    page.choose("kind", "Best")
    page.assert_chosen(sum("Best" in query["kinds"] for query in wrong), len(queries))
    page.choose("kind", "")
    page.choose("right", "")
    chosen = images[str(queries[0]["row"])]["class"]
    page.choose("class", chosen)
    page.assert_chosen(sum(images[str(query["row"])]["class"] == chosen for query in queries), len(queries))

    # A comparison opens as well, and neither page logs an error.
    page = Page(browser, comparison()[0])
    page.shown()[0].click()
    assert len(page.all("#shown h4")) == 2
    first = comparison()[2]["gallery"]["queries"][0]
    assert len(page.all(".why")) == len(first["found"][0]) < len(page.all("#shown li"))
    page.all(".why")[1].click()
    assert f"neighbor 2 more similar for A: {straight_run().name}" in page.text("#why") and len(page.all("canvas")) == 2
    assert browser.get_log("browser") == []


@pytest.mark.nightly
def test_narrow_dark_and_printed(browser):
    size = browser.get_window_size()
    for path in (report()[0], comparison()[0]):
        Page(browser, path)
        light, dark = background(browser, "light"), background(browser, "dark")
        assert light == "rgb(255, 255, 255)" and max(map(int, re.findall(r"\d+", dark))) < 64
        assert background(browser, "light") == light
        browser.set_window_size(500, 800)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        browser.set_window_size(size["width"], size["height"])
        assert base64.b64decode(browser.print_page()).startswith(b"%PDF")
        assert browser.get_log("browser") == []


def background(browser, scheme):
    """The background color of a page in light or dark mode."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")
