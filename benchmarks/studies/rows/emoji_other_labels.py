"""Other kinds of labels on the emoji dataset: `python -m benchmarks.study emoji_other_labels --data_dir=data/emoji`.

Trains configs/emoji.flags for 600 steps with pairs, with a class hierarchy of two levels, and with several labels per
image. Controls for the hierarchy train with classes alone, and with batches of two groups.
`python -m benchmarks.studies.emoji_tables` writes the tables that it reads. It prints a Markdown table of the first
metric of each row, in percent on the test split, of the last models, of the models before training and of the
pretrained features. There is no search. docs/evidence/labels.md has the results.
"""

from benchmarks.studies.sources_of_labels import CONTRASTIVE, LOSSES, length
from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Study
from tfdml.run.study.tables import spread_of

PAIRS, TAGS = "pairs", "several labels"
FINE_ONLY, LEVELS, FEW_GROUPS = "classes alone", "groups and classes", "two groups a batch"
N_PAIR, *OF_PAIRS = LOSSES["N-pair"]
# The metrics of each row.
OF_LEVELS = ("recall_at_1", "recall_at_1_of_group", "hierarchical_ap")
METRICS = {
    PAIRS: ("roc_auc", "equal_error_rate"),
    TAGS: ("relevance_at_1", "relevance_at_10", "graded_map"),
    **dict.fromkeys((FINE_ONLY, LEVELS, FEW_GROUPS), OF_LEVELS),
}


def by_level(weight):
    """Returns the flags of a class hierarchy with weighted groups and classes."""
    loss = N_PAIR.partition("=")[2]
    return ["--levels=group,class", f"--loss=by_level(loss='{loss}', weights=({weight}, 1.0))", *OF_PAIRS]


CHANGES = {
    PAIRS: ["--dataset=pairs(file='pairs.csv')", "--sampler=given(count=32)", *CONTRASTIVE],
    FINE_ONLY: by_level(0.0),
    LEVELS: by_level(0.3),
    FEW_GROUPS: [*by_level(0.3), "--sampler=pxk(classes=16, per_class=4, groups=2)"],
    TAGS: ["--dataset=csv(path='tags.csv', separator='|')", *LOSSES["N-pair"]],
}


def first_of(which):
    """Returns a column of the first metric of runs."""

    def column(results, run_dirs):
        return spread_of([result[which] for result in results], next(iter(results[0][which])))

    return column


def shown(name):
    """Returns the flag for the metrics of a row. Rank metrics are also measured at each level of the hierarchy."""
    return f"--metrics={','.join(each for each in METRICS[name] if '_of_' not in each)}"


STUDY = Study(
    flagfile="configs/emoji.flags",
    rows={name: [*length(600), shown(name), *change] for name, change in CHANGES.items()},
    columns={
        "first metric": first_of("metrics"),
        "before training": first_of("untrained"),
        "of the features": first_of("features"),
        "seconds": seconds,
    },
    folder="runs/emoji_other_labels",
    which="final",
    differences=[(FINE_ONLY, LEVELS), (LEVELS, FEW_GROUPS)],
    head="labels",
)
