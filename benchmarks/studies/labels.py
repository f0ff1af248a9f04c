"""Writes the tables and the pictures of labels: `python -m benchmarks.studies.labels`.

Tables and a picture of all sets go to docs/evidence/labels.md, a picture of emoji to docs/labels.md. Numbers come from
docs/records/labels.jsonl, which `python -m benchmarks.study emoji_labels --seeds=0` and alike with the names and flags
below write; what it does not have is left out. Nothing is trained.
"""

import sys
import tempfile

from benchmarks.markdown import markdown
from benchmarks.pages.catalog import Source
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.levels import levels
from benchmarks.pages.recorded import ROOT, Recorded
from benchmarks.pages.template import placed
from benchmarks.studies.rows import emoji_other_labels as others
from benchmarks.studies.sources_of_labels import BOTH, CLASSES, CLUSTERS, LOSSES, VIEWS, wrong

PAGE, PICTURE = ROOT / "docs/evidence/labels.md", ROOT / "docs/evidence/labels_sources.svg"
PICTURE_OF_EMOJI = ROOT / "docs/images/labels.svg"
BEGIN, END = "<!-- Written by `python -m benchmarks.studies.labels`: {}. -->", "<!-- Until here. -->"
FINE = ("--optimizer=adam(learning_rate=0.0003)",)
# A network that learns something in so few steps; of MobileNet's embeddings nearly all are alike as long.
RANDOM = (
    "--backbone=small(width=16)",
    "--initial_weights=",
    "--freeze_batch_norm=none",
    "--optimizer=adam(learning_rate=0.001)",
)
SETS = {"emoji": "emoji", "cars": "cars", "omniglot": "Omniglot"}


def _of_sets(weights, flags):
    return {f"{name}, {weights} weights": (f"{each}_labels", flags) for each, name in SETS.items()}


# Name for the table to its study and flags.
TAUGHT = {
    **_of_sets("ImageNet", FINE),
    "cars, ImageNet weights, rate 0.0001": ("cars_labels", ("--optimizer=adam(learning_rate=0.0001)",)),
    **_of_sets("random", RANDOM),
}
MISTAKEN = {SETS[each]: (f"{each}_wrong_labels", ()) for each in ("emoji", "cars")}
OTHERS = {"emoji": ("emoji_other_labels", ())}
IN_PICTURE = ("NormSoftmax", "generalized cross-entropy")
WAYS = (VIEWS, CLUSTERS, BOTH, CLASSES)
HEADS = {"features": "of the features", "before training": "before training"}
TITLE = "What labels teach: Recall@1 on test classes, percent."
TITLE_OF_EMOJI = "What labels of each kind teach on the emoji set, on test images, percent."
ABOUT = (
    "Recall@1 on test classes, percent: of the pretrained features, of the embedding before training, and after 600\n"
    "steps with the same loss, one seed, nothing searched. Views and clusters know no class of a training image."
)
ABOUT_OTHERS = "After 600 steps on the emoji set, on test images, percent, one seed, nothing searched:"
# Place of a table to its rows, which have the same metrics, and to the metric of the picture.
OF_OTHERS = {
    "pairs": ((others.PAIRS,), "roc_auc"),
    "levels": ((others.FINE_ONLY, others.LEVELS, others.FEW_GROUPS), "hierarchical_ap"),
    "several labels": ((others.TAGS,), "relevance_at_10"),
}
ABOUT_MISTAKES = (
    "Recall@1 on test classes after 800 steps, percent, one seed: with the right labels, with a fifth of them\n"
    "exchanged, and what that costs, with its 95 % interval:"
)


def recorded_in(folder):
    """Returns the studies that are recorded in full or in part, of each kind: name for the table to `Recorded`.

    Args:
        folder: what `Recorded` takes.
    """
    return [
        {
            name: found
            for name, (study, flags) in table.items()
            if (found := Recorded(Source(study, "labels", flags, seeds=(0,)), folder)).rows
        }
        for table in (TAUGHT, MISTAKEN, OTHERS)
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


def scores_of(study, rows):
    """Returns the scores of rows with other labels, and of the pretrained features: name to metric to text."""
    (of_first,) = study.results(rows[0])
    scores = {"features": of_first["features"], **{name: study.results(name)[0]["metrics"] for name in rows}}
    metrics = others.METRICS[rows[0]]
    return {name: {metric: f"{100 * each[metric]:.1f}" for metric in metrics} for name, each in scores.items()}


def tables_of(recorded):
    """Returns the Markdown of each place of the page, empty where nothing is recorded.

    Args:
        recorded: what `recorded_in` returns.
    """
    found, mistaken, other = taught(recorded[0]), recorded[1], _others(recorded)
    tables = {
        "what labels teach": found and f"{ABOUT}\n\n{table_of(found)}\n\n![{TITLE}]({PICTURE.name})",
        "wrong labels": mistaken and f"{ABOUT_MISTAKES}\n\n{mistakes(mistaken)}",
    }
    for place, scores in other.items():
        heads = ["trained with", *(f"`{metric}`" for metric in scores["features"])]
        table = markdown(heads, [[name, *each.values()] for name, each in scores.items()])
        tables[place] = f"{ABOUT_OTHERS}\n\n{table}"
    return {place: tables.get(place) or "" for place in ("what labels teach", "wrong labels", *OF_OTHERS)}


def _others(recorded):
    """The scores of each kind of other labels whose rows are all recorded."""
    study = recorded[2].get("emoji")
    rows = {place: of_place for place, (of_place, _) in OF_OTHERS.items() if study and set(of_place) <= set(study.rows)}
    return {place: scores_of(study, of_place) for place, of_place in rows.items()}


def pictures_of(recorded):
    """Returns the pictures that something is recorded for, by their files.

    Args:
        recorded: what `recorded_in` returns.
    """
    found = taught(recorded[0])
    of_emoji = {"no labels, and classes: Recall@1": found.get("emoji, ImageNet weights", {})}
    for place, scores in _others(recorded).items():
        metric = OF_OTHERS[place][1]
        of_emoji[f"{place}: {metric}"] = {name: each[metric] for name, each in scores.items()}
    if "emoji" in recorded[1]:
        study = recorded[1]["emoji"]
        for loss in IN_PICTURE:
            names = {"right labels": loss, "a fifth wrong": wrong(loss)}
            scores = {head: study.cell(name, "Recall@1") for head, name in names.items() if name in study.rows}
            of_emoji[f"{loss}: Recall@1"] = scores
    of_emoji = {head: scores for head, scores in of_emoji.items() if scores}
    drawn = {PICTURE: (TITLE, found), PICTURE_OF_EMOJI: (TITLE_OF_EMOJI, of_emoji)}
    return {file: levels(title, groups) for file, (title, groups) in drawn.items() if groups}


def page_of(recorded, text):
    """Returns the page with its tables.

    Args:
        recorded: what `recorded_in` returns.
        text: the page as it is, with the lines `BEGIN` and `END` around each table.
    """
    for place, table in tables_of(recorded).items():
        text = placed(PAGE.name, text, BEGIN.format(place), END, table)
    return text


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            recorded = recorded_in(folder)
            files = {PAGE: page_of(recorded, PAGE.read_text(encoding="utf-8")), **pictures_of(recorded)}
        except ValueError as error:
            sys.exit(str(error))
    for file, content in files.items():
        file.write_text(content, encoding="utf-8")
        print(f"Wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
