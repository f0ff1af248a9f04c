"""A browser without a window, and TensorBoard to look at with it: for pictures of the docs, and for tests."""

import contextlib
import importlib.util
import logging
import shutil
import time

PROGRAMS = ("chromium", "chromedriver")
# Without a sandbox, which containers forbid; in /tmp, since their /dev/shm is small.
SWITCHES = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1400,900")
# WebGL on a processor.
WEBGL = ("use-angle=swiftshader-webgl", "enable-unsafe-swiftshader")
# The data that the projector shows, as far as all of them are loaded.
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
    """Returns a sentence that says what to install before there is a browser; None if there is one."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed; setup.py lists it"
    if None in map(shutil.which, PROGRAMS):
        return "chromium and chromedriver are not installed; Debian: apt install chromium chromium-driver"
    return None


@contextlib.contextmanager
def chromium(webgl=False):
    """Starts Chromium, which records what pages say on its console; gives selenium's driver of it.

    Args:
        webgl: whether pages can draw with WebGL.
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
    """Opens TensorBoard's projector, on this machine alone; returns the data that it shows.

    Args:
        browser: what `chromium(webgl=True)` gives.
        log_dir: folder that TensorBoard shows.
        patience: seconds after which it is an error that it shows none.
    """
    from tensorboard import default, program

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    board = program.TensorBoard(default.get_plugins())
    board.configure(argv=[None, "--logdir", str(log_dir), "--host", "127.0.0.1", "--port", "0", "--load_fast=false"])
    browser.get(f"{board.launch()}data/plugin/projector/projector_binary.html")
    return waited_for(lambda: browser.execute_script(PROJECTOR), patience)


def waited_for(find, patience=180):
    """Returns the first answer of a function that is not None."""
    given_up = time.monotonic() + patience
    while time.monotonic() < given_up:
        answer = find()
        if answer is not None:
            return answer
        time.sleep(0.2)
    raise TimeoutError(f"Waited {patience} seconds in vain.")
