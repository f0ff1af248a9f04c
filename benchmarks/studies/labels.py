"""Writes the tables of docs/labels.md, and their picture: `python -m benchmarks.studies.labels`.

Numbers come from docs/records/labels.jsonl, which `python -m benchmarks.study emoji_labels --seeds=0` and alike with
the names and flags below write; what it does not have is left out. Nothing is trained.
"""

import sys
import tempfile

from benchmarks.markdown import markdown
from benchmarks.pages.catalog import Source
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.levels import levels
from benchmarks.pages.recorded import ROOT, Recorded
from benchmarks.pages.template import placed
from benchmarks.studies.sources_of_labels import BOTH, CLASSES, CLUSTERS, LOSSES, VIEWS, wrong

PAGE, PICTURE = ROOT / "docs/labels.md", ROOT / "docs/images/labels.svg"
BEGIN, END = "<!-- Written by `python -m benchmarks.studies.labels`: {}. -->", "<!-- Until here. -->"
FINE = ("--optimizer=adam(learning_rate=0.0003)",)
RANDOM = ("--initial_weights=", "--freeze_batch_norm=none", "--optimizer=adam(learning_rate=0.001)")
SETS = {"emoji": "emoji", "cars": "cars", "omniglot": "Omniglot"}
# Name for the table to its study and flags.
TAUGHT = {
    f"{name}, {weights} weights": (f"{each}_labels", flags)
    for weights, flags in (("ImageNet", FINE), ("random", RANDOM))
    for each, name in SETS.items()
}
MISTAKEN = {SETS[each]: (f"{each}_wrong_labels", ()) for each in ("emoji", "cars")}
WAYS = (VIEWS, CLUSTERS, BOTH, CLASSES)
HEADS = {"features": "of the features", "before training": "before training"}
TITLE = "What labels teach: Recall@1 on test classes, percent."
ABOUT = (
    "Recall@1 on test classes, percent: of the pretrained features, of the embedding before training, and after 600\n"
    "steps with the same loss, one seed, nothing searched. Views and clusters know no class of a training image."
)
ABOUT_MISTAKES = (
    "Recall@1 on test classes after 800 steps, percent, one seed: with the right labels, with a fifth of them\n"
    "exchanged, and what that costs, with its 95 % interval:"
)


def recorded_in(folder):
    """Returns the studies that are recorded in full or in part: name for the table to `Recorded`, of both tables.

    Args:
        folder: what `Recorded` takes.
    """
    return [
        {
            name: found
            for name, (study, flags) in table.items()
            if (found := Recorded(Source(study, "labels", flags, seeds=(0,)), folder)).rows
        }
        for table in (TAUGHT, MISTAKEN)
    ]


def taught(recorded):
    """Returns Recall@1 of what studies begin with and of each row, as texts: name to head to text."""
    return {
        name: {
            **{head: study.cell(study.rows[0], column) for head, column in HEADS.items()},
            **{way: study.cell(way, "Recall@1") for way in study.rows},
        }
        for name, study in recorded.items()
    }


def table_of(found):
    """Returns the Markdown table of what `taught` returns."""
    heads = (*HEADS, *WAYS)
    return markdown(["", *heads], [[name, *(each.get(head) or "–" for head in heads)] for name, each in found.items()])


def mistakes(recorded):
    """Returns the Markdown table of losses with right and wrong labels."""
    heads = [head for name in recorded for head in (name, "a fifth wrong", "cost")]
    rows = [[loss, *(cell for study in recorded.values() for cell in _with_mistakes(study, loss))] for loss in LOSSES]
    return markdown(["loss", *heads], rows)


def _with_mistakes(study, loss):
    """Recall@1 of a loss with right and with wrong labels, and the difference."""
    both = [each for each in (loss, wrong(loss)) if each in study.rows]
    if len(both) < 2:
        return ["–"] * 3
    return [
        *(study.cell(each, "Recall@1") for each in both),
        text_of(difference_of(study, f"{both[1]} minus {both[0]}")),
    ]


def page_of(recorded, text):
    """Returns the page with its tables, and the picture, or None where nothing is recorded.

    Args:
        recorded: what `recorded_in` returns.
        text: the page as it is, with the lines `BEGIN` and `END` around each table.
    """
    found, wrong_ones = taught(recorded[0]), recorded[1]
    picture = levels(TITLE, found) if found else None
    told = f"{ABOUT}\n\n{table_of(found)}\n\n![{TITLE}](images/{PICTURE.name})" if found else ""
    about_mistakes = f"{ABOUT_MISTAKES}\n\n{mistakes(wrong_ones)}" if wrong_ones else ""
    for name, table in (("what labels teach", told), ("wrong labels", about_mistakes)):
        text = placed(PAGE.name, text, BEGIN.format(name), END, table)
    return text, picture


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            page, picture = page_of(recorded_in(folder), PAGE.read_text(encoding="utf-8"))
        except ValueError as error:
            sys.exit(str(error))
    PAGE.write_text(page, encoding="utf-8")
    if picture:
        PICTURE.write_text(picture, encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}" + f" and {PICTURE.relative_to(ROOT)}" * bool(picture))


if __name__ == "__main__":
    main()
