"""TensorBoard's projector in a browser: the points, their pictures and their labels."""

import io
import logging
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from tensorboard import default, program

from tfdml.callbacks import Projector

pytestmark = pytest.mark.slow

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# WebGL without a GPU.
SWITCHES = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1100,750")
WEBGL = ("--use-angle=swiftshader-webgl", "--enable-unsafe-swiftshader")
PATIENCE = 180
# The projector, which holds the data that it shows; None before they are loaded.
FOUND = """
const projector = document.querySelector("vz-projector-dashboard")?.shadowRoot?.querySelector("vz-projector");
const data = projector?.dataSet;
if (!data?.spriteAndMetadataInfo?.spriteImage) return null;
return {
  points: data.points.map(point => point.metadata),
  dimensions: data.dim[1],
  sprite: data.spriteAndMetadataInfo.spriteImage.width,
  tensors: projector.dataPanel.tensorNames.map(tensor => tensor.name),
};
"""


@pytest.fixture
def browser():
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing: pip install selenium")
    chromium, driver = next(filter(None, map(shutil.which, CHROMIUM)), None), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("Chromium or its driver is missing: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, *WEBGL):
        options.add_argument(switch)
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def address(tmp_path):
    """Where TensorBoard shows 40 points of two classes, red and blue ones."""
    labels = np.arange(40) % 2
    random = np.random.default_rng(0)
    embeddings = np.concatenate([np.eye(4)[labels] + 0.1 * random.normal(size=(40, 4))] * 2, axis=1)

    def thumbnail(row):
        return np.full((24, 24, 3), ((250, 10, 20), (20, 10, 250))[row % 2], np.uint8)

    names = {"class_names": {0: "red kite", 1: "blue tit"}, "names": [f"{row}.jpg" for row in range(40)]}
    Projector(tmp_path, None, labels, thumbnail=thumbnail, learners=2, **names).write(embeddings)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    board = program.TensorBoard(default.get_plugins())
    board.configure(argv=[None, "--logdir", str(tmp_path), "--host", "127.0.0.1", "--port", "0", "--load_fast=false"])
    return f"{board.launch()}data/plugin/projector/projector_binary.html"


def waited_for(find):
    """The first answer that is not None."""
    given_up = time.monotonic() + PATIENCE
    while time.monotonic() < given_up:
        answer = find()
        if answer is not None:
            return answer
        time.sleep(0.2)
    raise TimeoutError("waited in vain")


def test_points_pictures_and_labels_are_there(browser, address):
    browser.get(address)
    found = waited_for(lambda: browser.execute_script(FOUND))
    points = found["points"]
    assert len(points) == 40 and {point["name"] for point in points} == {"red kite", "blue tit"}
    assert {"image": "3.jpg", "label": 1, "name": "blue tit", "nearest": "right"}.items() <= points[3].items()
    assert found["dimensions"] == 8 and found["sprite"] == 7 * 24
    assert found["tensors"] == ["embeddings", "learner_0", "learner_1"]

    def colors():
        pixels = np.asarray(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")).astype(int)
        red, blue = (np.abs(pixels - color).sum(axis=2) < 60 for color in ((250, 10, 20), (20, 10, 250)))
        return True if min(red.sum(), blue.sum()) > 300 else None

    waited_for(colors)
