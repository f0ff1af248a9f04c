"""Where labels come from, compared: nowhere, from clusters, from classes; and classes of which a part are wrong."""

from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf

CLASSES, CLUSTERS, VIEWS, BOTH = "classes", "clusters", "views", "views and clusters"
# Of the share of labels that are exchanged.
WRONG = 0.2
N_PAIR = "--loss=n_pair(scale=20.0)"
# As validation chose on emoji, in `emoji_losses`, or alike: a row that bears wrong labels differs in one thing from one
# that does not. Proxies begin at random, and the backbone waits for them: otherwise all depends on where they begin.
PROXIES = ["--lr_multipliers=loss=100", "--freeze_until=200"]
CONTRASTIVE = ["--loss=contrastive(margin=1.0)", "--optimizer=adam(learning_rate=0.0001)"]
LOSSES = {
    "N-pair": [N_PAIR, "--optimizer=adam(learning_rate=0.0003)"],
    "contrastive": CONTRASTIVE,
    "contrastive, memory": [*CONTRASTIVE, "--memory=xbm(size=2048, start=200)"],
    "contrastive, memory that agrees": [*CONTRASTIVE, f"--memory=agreement(size=2048, start=200, share={WRONG})"],
    "NormSoftmax": ["--loss=norm_softmax(temperature=0.1)", *PROXIES],
    "generalized cross-entropy": ["--loss=generalized_cross_entropy(q=0.7, temperature=0.1)", *PROXIES],
    "ArcFace": ["--loss=arc_face(scale=16.0, margin=0.3)", *PROXIES],
    "sub-center ArcFace": ["--loss=sub_center_arc_face(scale=16.0, margin=0.3, per_class=2)", *PROXIES],
}


def before(which):
    """Column of Recall@1 of what a run begins with; empty of random weights, whose features are not measured."""

    def column(results, run_dirs):
        return MetricOf(which)(results, run_dirs) if all(which in result for result in results) else ""

    return column


COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "MAP@R": MetricOf("metrics", "map_at_r"),
    "before training": before("untrained"),
    "of the features": before("features"),
    "seconds": seconds,
}


def length(steps):
    """Flags of a run that is measured on test classes before it and at its end: without classes nothing selects."""
    return [f"--steps={steps}", "--evaluate_on=test", f"--eval_every={steps}", "--eval_unit=steps"]


def sources_of_labels(flagfile, folder, *, clusters, images, transform):
    """Returns the study of what the same loss learns from views, from clusters, from both, and from classes.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
        clusters: number of clusters.
        images: images of a batch of views; the flagfile's own batches have twice as many.
        transform: spec of the transform that makes views.
    """
    # Clusters are found anew every 100 steps.
    alike = [*length(600), "--steps_per_epoch=100", N_PAIR]
    views = [f"--sampler=views(images={images})", f"--train_transform={transform}"]
    found = f"--labels=clusters(k={clusters})"
    return Study(
        flagfile=flagfile,
        rows={
            VIEWS: [*alike, "--labels=images", *views],
            CLUSTERS: [*alike, found],
            BOTH: [*alike, found, *views],
            CLASSES: alike,
        },
        columns=COLUMNS,
        folder=folder,
        which="final",
        differences=[(VIEWS, CLUSTERS), (VIEWS, BOTH), (CLUSTERS, BOTH), (BOTH, CLASSES)],
        head="learned from",
    )


def wrong(name):
    """The name of a row with wrong labels, by that of the row with the right ones."""
    return f"{name}, {WRONG:.0%} wrong".replace("%", " %")


def wrong_labels(flagfile, folder):
    """Returns the study of losses with the labels of classes, and with a part of them exchanged.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
    """
    rows = {}
    for name, loss in LOSSES.items():
        rows[name] = [*length(800), *loss]
        rows[wrong(name)] = [*rows[name], f"--labels=exchanged(share={WRONG})"]
    against = [
        ("contrastive, memory", "contrastive, memory that agrees"),
        ("NormSoftmax", "generalized cross-entropy"),
        ("ArcFace", "sub-center ArcFace"),
    ]
    return Study(
        flagfile=flagfile,
        rows=rows,
        columns=COLUMNS,
        folder=folder,
        which="final",
        differences=[(name, wrong(name)) for name in LOSSES] + [(wrong(one), wrong(other)) for one, other in against],
        head="loss",
    )
