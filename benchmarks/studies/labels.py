"""Writes the tables and pictures about kinds of labels: `python -m benchmarks.studies.labels`.

It writes the tables and a picture of docs/evidence/labels.md, and a picture of docs/labels.md. The numbers come from
docs/records/labels.jsonl. `python -m benchmarks.study emoji_labels --seeds=0` and similar commands, with the names and
flags below, add to these records; results that are missing are omitted. The command trains nothing.
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
# MobileNet needs more steps than this: its embeddings are still nearly equal at the end.
RANDOM = (
    "--backbone=small(width=16)",
    "--initial_weights=",
    "--freeze_batch_norm=none",
    "--optimizer=adam(learning_rate=0.001)",
)
SETS = {"emoji": "emoji", "cars": "cars", "omniglot": "Omniglot"}


def _of_sets(weights, flags):
    return {f"{name}, {weights} weights": (f"{each}_labels", flags) for each, name in SETS.items()}


# Names in the table, with their study and flags.
TAUGHT = {
    **_of_sets("ImageNet", FINE),
    "cars, ImageNet weights, learning rate 0.0001": ("cars_labels", ("--optimizer=adam(learning_rate=0.0001)",)),
    **_of_sets("random", RANDOM),
}
MISTAKEN = {SETS[each]: (f"{each}_wrong_labels", ()) for each in ("emoji", "cars")}
OTHERS = {"emoji": ("emoji_other_labels", ())}
IN_PICTURE = ("NormSoftmax", "generalized cross-entropy")
WAYS = (VIEWS, CLUSTERS, BOTH, CLASSES)
HEADS = {"pretrained features": "of the features", "before training": "before training"}
TITLE = "Recall@1 on test classes, in percent, for each kind of labels."
TITLE_OF_EMOJI = "Results for each kind of labels on test images of the emoji dataset, in percent."
ABOUT = (
    "Recall@1 on test classes, in percent, with the pretrained features, before training, and after 600 steps with\n"
    "the same loss. One seed, no search. Views and clusters do not use the classes of the training images."
)
ABOUT_OTHERS = "Results on test images of the emoji dataset after 600 steps, in percent. One seed, no search."
# Display names of rows.
SHOWN = {
    others.FEW_GROUPS: "two groups per batch",
    others.TAGS: "multi-label images",
    "contrastive, memory": "contrastive, cross-batch memory",
    "contrastive, memory that agrees": "contrastive, agreement memory",
}
# Places of tables, with their rows, which share metrics, and the metric of the picture.
OF_OTHERS = {
    "pairs": ((others.PAIRS,), "roc_auc"),
    "levels": ((others.FINE_ONLY, others.LEVELS, others.FEW_GROUPS), "hierarchical_ap"),
    "several labels": ((others.TAGS,), "relevance_at_10"),
}
ABOUT_MISTAKES = (
    "Recall@1 on test classes after 800 steps, in percent, with correct labels and with 20% wrong labels, and the\n"
    "difference in percentage points with its 95% confidence interval. One seed."
)


def recorded_in(folder):
    """Returns the recorded studies of each kind, as dictionaries from names in the table to `Recorded`.

    Args:
        folder: Folder for `Recorded`.
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
    """Returns Recall@1 before training and of each row, as a dictionary from names to columns to texts."""
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
    rows = [[name, *(each.get(head) or "–" for head in heads)] for name, each in found.items()]
    return markdown(["Dataset and initial weights", *(head.capitalize() for head in heads)], rows)


def mistakes(recorded):
    """Returns the Markdown table of losses with correct and wrong labels."""
    heads = [f"{name}: {head}" for name in recorded for head in ("correct labels", "20% wrong", "change (95% CI)")]
    rows = [
        [SHOWN.get(loss, loss), *(cell for study in recorded.values() for cell in _with_mistakes(study, loss))]
        for loss in LOSSES
    ]
    return markdown(["Loss", *heads], rows)


def _with_mistakes(study, loss):
    """Returns Recall@1 of a loss with correct and with wrong labels, and the difference."""
    both = [each for each in (loss, wrong(loss)) if each in study.rows]
    if len(both) < 2:
        return ["–"] * 3
    return [
        *(study.cell(each, "Recall@1") for each in both),
        text_of(difference_of(study, f"{both[1]} minus {both[0]}")),
    ]


def scores_of(study, rows):
    """Returns the scores of the pretrained features and of rows, as a dictionary from names to metrics to texts."""
    (of_first,) = study.results(rows[0])
    scores = {"pretrained features": of_first["features"], **{name: study.results(name)[0]["metrics"] for name in rows}}
    metrics = others.METRICS[rows[0]]
    return {name: {metric: f"{100 * each[metric]:.1f}" for metric in metrics} for name, each in scores.items()}


def tables_of(recorded):
    """Returns the Markdown for each place of the page. It is empty if nothing is recorded for a place.

    Args:
        recorded: The studies from `recorded_in`.
    """
    found, mistaken, other = taught(recorded[0]), recorded[1], _others(recorded)
    tables = {
        "what labels teach": found and f"{ABOUT}\n\n{table_of(found)}\n\n![{TITLE}]({PICTURE.name})",
        "wrong labels": mistaken and f"{ABOUT_MISTAKES}\n\n{mistakes(mistaken)}",
    }
    for place, scores in other.items():
        heads = ["Trained with", *(f"`{metric}`" for metric in scores["pretrained features"])]
        table = markdown(heads, [[SHOWN.get(name, name), *each.values()] for name, each in scores.items()])
        tables[place] = f"{ABOUT_OTHERS}\n\n{table}"
    return {place: tables.get(place) or "" for place in ("what labels teach", "wrong labels", *OF_OTHERS)}


def _others(recorded):
    """Returns the scores of each kind of labels for which all rows are recorded."""
    study = recorded[2].get("emoji")
    rows = {place: of_place for place, (of_place, _) in OF_OTHERS.items() if study and set(of_place) <= set(study.rows)}
    return {place: scores_of(study, of_place) for place, of_place in rows.items()}


def pictures_of(recorded):
    """Returns the pictures that have records, by their files.

    Args:
        recorded: The studies from `recorded_in`.
    """
    found = taught(recorded[0])
    of_emoji = {"no labels, and classes: Recall@1": found.get("emoji, ImageNet weights", {})}
    for place, scores in _others(recorded).items():
        metric = OF_OTHERS[place][1]
        of_emoji[f"{place}: {metric}"] = {name: each[metric] for name, each in scores.items()}
    if "emoji" in recorded[1]:
        study = recorded[1]["emoji"]
        for loss in IN_PICTURE:
            names = {"correct labels": loss, "20% wrong labels": wrong(loss)}
            scores = {head: study.cell(name, "Recall@1") for head, name in names.items() if name in study.rows}
            of_emoji[f"{loss}: Recall@1"] = scores
    of_emoji = {head: scores for head, scores in of_emoji.items() if scores}
    drawn = {PICTURE: (TITLE, found), PICTURE_OF_EMOJI: (TITLE_OF_EMOJI, of_emoji)}
    return {file: levels(title, groups) for file, (title, groups) in drawn.items() if groups}


def page_of(recorded, text):
    """Returns the page with its tables.

    Args:
        recorded: The studies from `recorded_in`.
        text: Current text of the page, with the lines `BEGIN` and `END` around each table.
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
