"""A headless browser, and TensorBoard in it, for the pictures of the docs and for tests."""

import contextlib
import importlib.util
import logging
import shutil
import time

PROGRAMS = ("chromium", "chromedriver")
# Containers forbid the sandbox and have a small /dev/shm, so Chromium uses /tmp.
SWITCHES = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1400,900")
# WebGL on a CPU.
WEBGL = ("use-angle=swiftshader-webgl", "enable-unsafe-swiftshader")
# The data that the projector shows, once all of it is loaded.
PROJECTOR = """
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


def what_is_missing():
    """Returns a sentence with what to install for the browser, or `None` if nothing is missing."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed; setup.py lists it"
    if None in map(shutil.which, PROGRAMS):
        return "chromium and chromedriver are not installed; Debian: apt install chromium chromium-driver"
    return None


@contextlib.contextmanager
def chromium(webgl=False):
    """Starts Chromium, which records the console output of pages, and yields its selenium driver.

    Args:
        webgl: Whether pages can draw with WebGL.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location, driver = map(shutil.which, PROGRAMS)
    for switch in [*SWITCHES, *(WEBGL if webgl else ())]:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def open_projector(browser, log_dir, patience=180):
    """Opens TensorBoard's projector, only reachable from this machine, and returns the data that it shows.

    Args:
        browser: A driver from `chromium(webgl=True)`.
        log_dir: Folder that TensorBoard shows.
        patience: Seconds after which it raises an error if no data is shown.
    """
    from tensorboard import default, program

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    board = program.TensorBoard(default.get_plugins())
    board.configure(argv=[None, "--logdir", str(log_dir), "--host", "127.0.0.1", "--port", "0", "--load_fast=false"])
    browser.get(f"{board.launch()}data/plugin/projector/projector_binary.html")
    return waited_for(lambda: browser.execute_script(PROJECTOR), patience)


def waited_for(find, patience=180):
    """Calls a function until it returns something other than `None`, and returns that."""
    given_up = time.monotonic() + patience
    while time.monotonic() < given_up:
        answer = find()
        if answer is not None:
            return answer
        time.sleep(0.2)
    raise TimeoutError(f"The page did not show its data within {patience} seconds.")
