"""Writes the tables of docs/recipes.md from the comments at the top of the flagfiles in configs/.

The first sentence of a comment names the paper, the table and, after a colon, the numbers that the paper reports:
`PAPER, Table 4, ABE-8: Recall@1, 2, 4, 8: 60.6, 71.5, 79.8, 87.4.`

python -m docs.list_recipes
"""

import itertools
import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/recipes.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_recipes -->"
# Prefixes of names with their headings, in the order of the page.
SETS = {
    "cub_": "CUB-200-2011",
    "cars_": "Cars196",
    "sop_": "Stanford Online Products",
    "inshop_": "In-shop, Market-1501 and VehicleID",
    "market1501_": "In-shop, Market-1501 and VehicleID",
    "vehicleid_": "In-shop, Market-1501 and VehicleID",
    "toycars_": "The built-in toy cars",
    "": "Other datasets",
}
# Sections without published numbers.
OURS = ("The built-in toy cars", "Other datasets")
HEADS = ["Configuration", "Paper and table", "Reported by the paper", "Reproduced here"]
HEADS_OF_OURS = ["Configuration", "Description", "Our results"]
# Pages of docs/evidence with our results of a configuration.
RESULTS = {
    "cars_half": "cars_main",
    "toycars_abe": "ensembles",
    "toycars_dnc": "divide_and_conquer",
    "toycars_edms": "edms_variants",
    "toycars_lifted": "lifted",
    "toycars_rll": "ranked_list",
    "emoji": "emoji_losses",
    "omniglot": "omniglot",
    "photos": "first_runs",
}
NONE = "–"
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
    """Returns the text of the page with up-to-date tables."""
    tables = {heading: [] for heading in SETS.values()}
    paths = sorted((REPOSITORY / "configs").glob("*.flags"))
    summaries = {path.stem: summary(path.read_text(encoding="utf-8")) for path in paths}
    for name, text in summaries.items():
        if not changed_by(text):
            heading = next(heading for start, heading in SETS.items() if name.startswith(start))
            tables[heading].append(_row(name, text, _changing(name, summaries), heading in OURS))
    sections = (
        _section(heading, rows, HEADS_OF_OURS if heading in OURS else HEADS) for heading, rows in tables.items()
    )
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *sections]) + "\n"


def _section(heading, rows, heads):
    table = [heads, ["---"] * len(heads), *rows]
    return "\n".join([f"## {heading}", "", *(f"| {' | '.join(cells)} |" for cells in table)])


def _row(name, text, changing, is_ours):
    """Returns the cells of a configuration."""
    results = f"[results](evidence/{RESULTS[name]}.md)" if name in RESULTS else NONE
    if is_ours:
        return [f"`{name}`", f"{text}{changing}", results]
    where, reported = claimed(text)
    return [f"`{name}`", f"{where}.{changing}" if changing else where, reported or NONE, results]


def claimed(text):
    """Returns the paper and the table that a summary names, and the numbers that the paper reports, if any."""
    where, colon, reported = text.removesuffix(".").partition(": Recall@1")
    if not colon:
        return where, ""
    return where, f"Recall@1{reported.replace(' is ', ' ')}"


def changed_by(text):
    """Returns the name of the configuration that the one with this summary changes, or `None`."""
    found = re.search(r"\bconfigs/(\w+)\.flags", text)
    return found and found[1]


def _changing(name, summaries):
    names = [f"`{other}`" for other, text in summaries.items() if changed_by(text) == name]
    return f" Variants: {', '.join(names)}." if names else ""


def summary(flagfile):
    """Returns the first sentence of the comment at the top of a flagfile, in which papers link to their pages."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), flagfile.splitlines())
    text = " ".join(line.removeprefix("#").strip() for line in lines)
    sentence = re.split(r"(?<=\.) (?=[A-Z]|python -m)|: python -m ", text, maxsplit=1)[0]
    for paper, page in PAPERS.items():
        sentence = sentence.replace(paper, page)
    return sentence.replace("|", "&#124;")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
