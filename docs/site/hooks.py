"""MkDocs hooks for the site: pages that are not files in docs/, and links that leave docs/."""

import subprocess
import sys

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

from docs.site import examples, links, reference

ROOT = reference.ROOT
# Replaces, for pages that are opened from a disk, the script that the plugin `offline` would load from another site.
WORKER = "assets/iframe-worker.js"
# The section of the navigation that gets the generated pages, after its first one.
REFERENCE = "API reference"


def on_config(config):
    """Adds pages to the navigation, uses GitHub's anchors for headings, and makes the search work offline."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    config.extra["polyfills"] = [WORKER]
    section = next(entry for entry in config.nav if REFERENCE in entry)[REFERENCE]
    section[1:1] = [{"Python packages": reference.navigation()}, {"Commands": "commands.md"}]
    return config


def on_files(files, config):
    """Adds the pages that are not files in docs/."""
    written = {"index.md": links.from_root("README.md"), "changelog.md": links.from_root("CHANGELOG.md")}
    written["contributing.md"] = links.from_root(".github/CONTRIBUTING.md")
    worker = (ROOT / "docs/site" / WORKER.rpartition("/")[2]).read_text(encoding="utf-8")
    texts, pictures = examples.pages()
    written |= {"commands.md": _commands(), **reference.pages(), **texts, **pictures, WORKER: worker}
    for name, content in written.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Replaces links to files outside the site, for example records, with their text; see also `links.unescaped`."""
    shown = {file.src_uri for file in files if not file.inclusion.is_excluded()}
    return links.unescaped(links.within(markdown, page.file.src_uri, shown))


def _commands():
    """Returns the page of all commands: the output of `--help`, which needs no TensorFlow."""
    sections = [f"## {command}\n\n```text\n{_help(command)}\n```" for command in _command_names()]
    return "\n\n".join(["# Commands", "This page has the output of `--help` for each command.", *sections]) + "\n"


def _command_names():
    files = [*sorted(ROOT.glob("tfdml/*.py")), *sorted(ROOT.glob("pipelines/*.py"))]
    has_main = [file for file in files if '__name__ == "__main__"' in file.read_text(encoding="utf-8")]
    return [f"{file.parent.name}.{file.stem}" for file in has_main if file.stem != "__main__"]


def _help(command):
    given = [sys.executable, "-m", command, "--help"]
    return subprocess.run(given, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
