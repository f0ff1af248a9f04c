"""Writes the lists of docs/recipes.md from the comments at the head of the flagfiles in configs/.

python -m docs.list_recipes
"""

import itertools
import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/recipes.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_recipes -->"
# Beginnings of names and their headings, in the order of the page.
SETS = {
    "cub_": "CUB-200-2011",
    "cars_": "Cars196",
    "sop_": "Stanford Online Products",
    "inshop_": "In-shop, Market-1501 and VehicleID",
    "market1501_": "In-shop, Market-1501 and VehicleID",
    "vehicleid_": "In-shop, Market-1501 and VehicleID",
    "toycars_": "The built-in toy cars",
    "": "Others",
}
PAPERS = {
    "Attention-based Ensemble for Deep Metric Learning (Kim et al., ECCV 2018)": "[ABE](attention_ensemble.md)",
    "Divide and Conquer the Embedding Space for Metric Learning (Sanakoyeu et al., CVPR 2019)": (
        "[Divide and Conquer](divide_and_conquer.md)"
    ),
    "Ensemble Deep Manifold Similarity Learning using Hard Proxies (Aziere and Todorovic, CVPR 2019)": (
        "[EDMS](edms.md)"
    ),
    "Deep Metric Learning via Lifted Structured Feature Embedding (Song et al., CVPR 2016)": (
        "[Lifted Structure](lifted_structure.md)"
    ),
    "Ranked List Loss for Deep Metric Learning (Wang et al., CVPR 2019, extended version)": (
        "[Ranked List Loss](ranked_list.md)"
    ),
}


def written(page):
    """Returns the text of the page with the lists as they should be now."""
    tables = {heading: [] for heading in SETS.values()}
    paths = sorted((REPOSITORY / "configs").glob("*.flags"))
    summaries = {path.stem: summary(path.read_text(encoding="utf-8")) for path in paths}
    for name, text in summaries.items():
        if not changed_by(text):
            heading = next(heading for start, heading in SETS.items() if name.startswith(start))
            tables[heading].append(f"| `{name}` | {text}{_changing(name, summaries)} |")
    sections = (
        "\n".join([f"## {heading}", "", "| recipe | description |", "|---|---|", *rows])
        for heading, rows in tables.items()
    )
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *sections]) + "\n"


def changed_by(text):
    """Returns the name of the recipe that one with this summary changes, or None."""
    found = re.search(r"\bconfigs/(\w+)\.flags", text)
    return found and found[1]


def _changing(name, summaries):
    names = [f"`{other}`" for other, text in summaries.items() if changed_by(text) == name]
    return f" Changed in {', '.join(names)}." if names else ""


def summary(flagfile):
    """Returns the first sentence of the comment that a flagfile begins with; instead of a paper's name, its page."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), flagfile.splitlines())
    text = " ".join(line.removeprefix("#").strip() for line in lines)
    sentence = re.split(r"(?<=\.) (?=[A-Z]|python -m)|: python -m ", text, maxsplit=1)[0]
    for paper, page in PAPERS.items():
        sentence = sentence.replace(paper, page)
    return sentence.replace("|", "&#124;")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
