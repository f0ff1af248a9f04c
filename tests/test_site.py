"""The site has every page of the docs, and its reference every public name. What builds it is not needed here."""

import importlib
import json
import re
import shutil

import pytest
import yaml

from docs import notebooks
from docs.browser import chromium, waited_for, what_is_missing
from docs.site import docstrings, examples, links, reference
from tests.rooms import ROOT

SETTINGS = yaml.safe_load((ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8"))
# Pages that are not files in docs/: the README, the changelog, the page for contributors, and the notebooks.
FROM_ELSEWHERE = {
    "index.md",
    "changelog.md",
    "contributing.md",
    *(f"examples/{path.stem}.md" for path in notebooks.scripts()),
}
# Their names are for the rest of tfdml alone.
INTERNAL = {"tfdml.backbones.weights", "tfdml.reporting.tables"}
DESCRIBED = re.compile(r"^::: (\S+)$", re.MULTILINE)


def leaves(navigation):
    for entry in navigation:
        # A page of a folder that has no name of its own is its start.
        for below in entry.values() if isinstance(entry, dict) else [entry]:
            yield from leaves(below) if isinstance(below, list) else [below]


def described():
    """Full name of all that the reference describes to its object."""
    return {name: found(name) for page in reference.pages().values() for name in DESCRIBED.findall(page)}


def found(name):
    """The object of a full name: of a module, or in one."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_every_page_is_in_the_navigation_once():
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    listed = list(leaves(SETTINGS["nav"]))
    assert sorted(listed) == sorted(pages | FROM_ELSEWHERE)


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_the_sources_state_the_public_names(package):
    module = importlib.import_module(package)
    names = reference.public_names(package)
    assert names and len(names) == len(set(names))
    if hasattr(module, "__all__"):
        assert sorted(names) == sorted(module.__all__)


def test_every_public_name_is_in_the_reference():
    objects = list(described().values())
    modules = [importlib.import_module(package) for package in reference.PACKAGES]
    missing = [
        f"{module.__name__}.{name}"
        for module in modules
        for name in getattr(module, "__all__", ())
        if name != "__version__" and not any(getattr(module, name) is one for one in [*objects, *modules])
    ]
    assert missing == []


def test_every_package_with_public_names_has_a_page():
    files = [path for top in ("tfdml", "pipelines") for path in ROOT.joinpath(top).rglob("__init__.py")]
    packages = {".".join(path.relative_to(ROOT).parent.parts) for path in files if "\n__all__ = " in path.read_text()}
    assert packages - INTERNAL <= set(reference.PACKAGES)
    assert [page for each in reference.navigation() for page in each.values()] == list(reference.pages())


def test_a_name_that_is_described_elsewhere_is_a_link():
    page = reference.page("tfdml")
    assert "- [`Single`](tfdml.methods.md)\n" in page and "- [`losses`](tfdml.losses.md)\n" in page
    assert "\n::: tfdml.load\n" in page and "::: tfdml.Single" not in page


@pytest.mark.parametrize(
    "link, kept",
    [
        ("[records](../records/edms.jsonl)", "records"),
        ("[all](../records)", "all"),
        ("[code](../../tfdml/data.py)", "code"),
        ("[data](../data.md#samplers)", "[data](../data.md#samplers)"),
        ("[nothing](../records/nothing.jsonl)", "[nothing](../records/nothing.jsonl)"),
        ("![drawing](effects.svg)", "![drawing](effects.svg)"),
        ("[other](https://example.org)", "[other](https://example.org)"),
    ],
)
def test_links_to_files_that_are_not_in_the_site_become_text(link, kept):
    assert links.within(f"See {link}.", "evidence/README.md", {"data.md"}) == f"See {kept}."


def test_code_in_a_table_has_no_backslash_before_a_bar():
    text = "| chain |\n|---|\n| `warp\\|flip`, a \\| b |\n\n`a\\|b`\n"
    assert links.unescaped(text) == text.replace("warp\\|flip", "warp|flip")


def test_a_link_to_a_notebook_leads_to_its_page():
    assert links.within("[a](own_model.ipynb)", "examples/README.md", {"data.md"}) == "[a](own_model.md)"
    assert links.within("[a](own_model.ipynb)", "examples/own_model.md", {"examples/own_model.ipynb"}).endswith(
        "ipynb)"
    )


def test_the_page_of_an_example_has_what_its_notebook_prints_and_shows():
    script = notebooks.FOLDER / "own_model.py"
    picture = {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": ["a picture"]}}
    printed = {"output_type": "stream", "text": ["1\n", "2\n"]}
    cells = [{"cell_type": "markdown", "source": ["Text."]}, {"cell_type": "code", "source": ["a = 1\n", "a"]}]
    cells = [{}, {}, cells[0], cells[1] | {"outputs": [printed, picture]}]
    page = examples.page(script, cells, ["own_model_1.png"])
    title = page.partition("\n")[0]
    assert title == "# Metric learning in Keras" and "\n\n[notebook](own_model.ipynb)" in page
    assert page.endswith(
        "\n\nText.\n\n```python\na = 1\na\n```\n\n```text\n1\n2\n```\n\n"
        "![What the code above shows.](own_model_1.png)\n"
    )
    texts, pictures = examples.pages()
    assert texts.keys() == {page for page in FROM_ELSEWHERE if page.startswith("examples/")}
    shown = "".join(texts.values())
    assert len(pictures) > 2 and all(f"]({name.partition('/')[2]})" in shown for name in pictures)


def test_pages_and_notebooks_lead_to_colab_once_the_repository_is_on_github(monkeypatch):
    script = notebooks.FOLDER / "model_to_service.py"
    cells = [cell["source"] for cell in json.loads(notebooks.notebook(script, [[]] * 9))["cells"]]
    assert "".join(cells[1]).endswith('%pip install -q "../..[cpu,serve]" httpx2')
    assert "Colab]" not in "".join(cells[0]) + examples.page(script, [], [])
    monkeypatch.setattr(notebooks, "REPOSITORY", "https://github.com/me/mine")
    link = "[Open in Colab](https://colab.research.google.com/github/me/mine/blob/main/docs/examples/"
    cells = [cell["source"] for cell in json.loads(notebooks.notebook(script, [[]] * 9))["cells"]]
    assert cells[0][-1] == f"{link}model_to_service.ipynb)" and f"{link}model_to" in examples.page(script, [], [])
    command = '%pip install -q "tfdml[serve] @ git+https://github.com/me/mine" "faiss-cpu>='
    assert command in cells[1][-1] and cells[1][-1].endswith('" httpx2')
    assert '-q "tfdml @ git+https://github.com/me/mine" "faiss-cpu>=' in notebooks.install("own_model")


PAGE = """<script src="iframe-worker.js"></script>
<script>
  var found = null;
  const worker = new Worker("double.js");
  worker.addEventListener("message", event => { found = event.data; });
  worker.postMessage(21);
</script>"""


@pytest.mark.nightly
def test_a_worker_answers_on_a_page_from_a_disk(tmp_path):
    """As that of the search does; without the script browsers refuse it."""
    if what_is_missing():
        pytest.skip(what_is_missing())
    shutil.copy(ROOT / "docs/site/iframe-worker.js", tmp_path)
    (tmp_path / "double.js").write_text("addEventListener('message', event => postMessage(2 * event.data));")
    (tmp_path / "page.html").write_text(PAGE)
    with chromium() as browser:
        browser.get((tmp_path / "page.html").as_uri())
        assert waited_for(lambda: browser.execute_script("return found"), 60) == 42


def test_no_script_is_loaded_from_elsewhere():
    assert "offline" in SETTINGS["plugins"]
    hooks = (ROOT / "docs/site/hooks.py").read_text(encoding="utf-8")
    assert 'WORKER = "assets/iframe-worker.js"' in hooks and 'config.extra["polyfills"] = [WORKER]' in hooks
    assert "://" not in (ROOT / "docs/site/iframe-worker.js").read_text(encoding="utf-8")


def test_the_start_page_links_to_pages():
    text = links.from_root("README.md")
    assert "](quickstart.md)" in text and "](changelog.md)" in text and "](docs/" not in text


def test_arguments_that_share_a_text_are_read_one_by_one():
    text = "Scales.\n\nArgs:\n    mean, std: numbers\n        of channels.\n    size: a side.\n\nReturns:\n    a, b: c."
    read = text.replace("mean, std: numbers\n", "mean: numbers\n        of channels.\n    std: numbers\n")
    assert docstrings.with_single_arguments(text) == read
    assert docstrings.with_single_arguments("Call arguments:\n    x: y.") == "Call arguments:\n    - `x`: y."
