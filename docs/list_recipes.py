"""Writes the tables of docs/recipes.md from the comments at the top of the flagfiles in configs/.

The first sentence of a comment names the paper, the table and the numbers that the paper reports:
`PAPER, Table 4, ABE-8, with a reported Recall@1, 2, 4, 8 of 60.6, 71.5, 79.8, 87.4.`

python -m docs.list_recipes
"""

import itertools
import pathlib
import re

from tfdml import registry

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/recipes.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_recipes -->"
# Prefixes of names with their headings, in the order of the page. The longest prefix of a name counts.
SETS = {
    "cub_": "CUB-200-2011",
    "cars_": "Cars196",
    "sop_": "Stanford Online Products",
    "inshop_": "In-shop, Market-1501 and VehicleID",
    "market1501_": "In-shop, Market-1501 and VehicleID",
    "vehicleid_": "In-shop, Market-1501 and VehicleID",
    "toycars_": "The built-in toy cars",
    "cars_half": "Other datasets",
    "inshop_half": "Other datasets",
    "": "Other datasets",
}
# Sections without published numbers.
OURS = ("The built-in toy cars", "Other datasets")
HEADS = ["Configuration", "Paper and table", "Reported by the paper"]
HEADS_OF_OURS = ["Configuration", "Description", "Our results"]
# Sections of docs with our results of a configuration.
RESULTS = {
    "cars_half": "evidence/losses.md#cars-with-three-seeds",
    "toycars_dnc": "evidence/divide_and_conquer.md",
    "toycars_edms": "evidence/edms.md",
    "toycars_lifted": "evidence/lifted_structure.md",
    "toycars_rll": "evidence/ranked_list.md",
    "emoji": "evidence/losses.md#emoji",
    "omniglot": "evidence/losses.md#omniglot",
    "photos": "evidence/fine_tuning.md#the-default-configuration",
    "toycars_text": "text_search.md#held-out-combinations-of-the-toy-cars",
    "emoji_text": "text_search.md#held-out-names-of-emoji",
    "quickstart": "quickstart.md#results",
}
NONE = "–"
# What the page says above the names of losses that no paper's configuration uses.
OTHER_LOSSES = """\
Some losses are only in configurations of papers that use them, not of the papers that introduced them: Divide and
Conquer uses Proxy-NCA and the margin loss, VPTSP-G uses Proxy-Anchor, and Deep Randomized Ensembles use the normalized
softmax. For example, we do not have a configuration for Proxy-Anchor on CUB-200-2011. Set `--loss` in the configuration
that is closest, and tune the learning rate with `--evaluate_on=validation`.

No paper configuration uses these losses:"""
# The words before the numbers of a metric, such as "Recall@1, 2 of 60.6, 71.5 and an NMI of 55.4".
NUMBERS = re.compile(r"( and (?:an )?)?(Recall@1(?:, \d+)*|NMI|MAP@R|mAP) of ")
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
            heading = heading_of(name)
            tables[heading].append(_row(name, text, _changing(name, summaries), heading in OURS))
    sections = (
        _section(heading, rows, HEADS_OF_OURS if heading in OURS else HEADS) for heading, rows in tables.items()
    )
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *sections, _other_losses(paths)]) + "\n"


def heading_of(name):
    """Returns the heading of the section of a configuration."""
    return SETS[max((start for start in SETS if name.startswith(start)), key=len)]


def _other_losses(paths):
    """Returns the section on losses that no paper's configuration uses."""
    flags = "".join(path.read_text(encoding="utf-8") for path in paths if heading_of(path.stem) not in OURS)
    used = set(re.findall(r"^--loss=(\w+)", flags, re.MULTILINE))
    names = ", ".join(f"`{name}`" for name in registry.names("loss") if name not in used)
    return f"## Losses without a paper configuration\n\n{OTHER_LOSSES}\n\n{names}"


def _section(heading, rows, heads):
    table = [heads, ["---"] * len(heads), *rows]
    return "\n".join([f"## {heading}", "", *(f"| {' | '.join(cells)} |" for cells in table)])


def _row(name, text, changing, is_ours):
    """Returns the cells of a configuration."""
    if is_ours:
        results = f"[results]({RESULTS[name]})" if name in RESULTS else NONE
        return [f"`{name}`", f"{text}{changing}", results]
    where, reported = claimed(text)
    return [f"`{name}`", f"{where}.{changing}" if changing else where, reported or NONE]


def claimed(text):
    """Returns the paper and the table that a summary names, and the numbers that the paper reports, if any."""
    where, _, reported = text.removesuffix(".").partition(", with a reported ")
    return where, NUMBERS.sub(lambda found: f"{'; ' if found[1] else ''}{found[2]}: ", reported)


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
