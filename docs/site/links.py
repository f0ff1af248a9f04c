"""Adapts links from docs/ to other folders."""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
# Starts of links from the root and from .github/, and what they are from docs/.
MOVED = {"docs/": "", "../docs/": "", "CHANGELOG.md": "changelog.md", "../CHANGELOG.md": "changelog.md"}
MOVED |= {"CODE_OF_CONDUCT.md": "../.github/CODE_OF_CONDUCT.md", "LICENSE": "../LICENSE"}
MOVED |= {".github/CONTRIBUTING.md": "contributing.md"}
CODE = re.compile(r"`[^`]+`")


def from_root(name):
    """Returns the text of a page outside docs/, with its links as a page in docs/ needs them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for link, there in MOVED.items():
        text = text.replace(f"]({link}", f"]({there}")
    return text


def within(markdown, page, shown):
    """Returns the text of a page without links to files of the repository that are not part of the site.

    A link to a notebook becomes a link to its page. A broken link stays, so that the build fails.

    Args:
        markdown: Text of the page.
        page: File of the page, relative to docs/.
        shown: Files of the site, relative to docs/.
    """

    def kept(link):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
        if posixpath.basename(page) == "README.md" and target.endswith(".ipynb"):
            return f"[{link[1]}]({link[2].removesuffix('.ipynb')}.md)"
        return link[1] if target not in shown and (ROOT / "docs" / target).exists() else link[0]

    return LINK.sub(kept, markdown)


def unescaped(text):
    """Removes backslashes before | in code in tables, which GitHub needs but MkDocs would show."""

    def clean(code):
        return code[0].replace("\\|", "|")

    return "\n".join(CODE.sub(clean, line) if line.startswith("|") else line for line in text.split("\n"))
