"""Losses and methods of the studies on emoji, on other sets: what carries over."""

from benchmarks.studies.rows import emoji_ensembles, emoji_losses, emoji_ranked_list
from benchmarks.studies.rows.divide_and_conquer import divided
from benchmarks.studies.rows.emoji_losses import COLUMNS, SEARCHING
from tfdml.run.study.declaration import Study

FIRST = "triplet, semi-hard"
TRIPLET = "--loss=triplet(margin=0.1)"
DIVIDED = {
    "K = 4": divided(),
    "K = 4, turns on all data": divided("data_split='none'"),
    "K = 4, embedding not split": divided("split_embedding=False"),
}
# The second minus the first.
DIFFERENCES = [
    (FIRST, "SoftTriple"),
    (FIRST, "K = 4"),
    (FIRST, "K = 4, embedding not split"),
    ("K = 4, turns on all data", "K = 4"),
    ("1-head", "4-heads"),
    ("1-head", "ABE-1"),
    ("1-head", "ABE-4"),
    ("ABE-1", "ABE-4"),
    ("4-heads", "ABE-4"),
    ("4-heads", "4-heads+att"),
    ("1-head", "4-heads+att"),
    ("4-heads+att", "ABE-4"),
    ("H", "L, M, H"),
    ("H, 384 dimensions", "L, M, H"),
]


def losses_and_methods(flagfile, folder, *, losses, ensembles, levels, differences=()):
    """Returns a study of losses and methods by their names on emoji, with four settings each.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
        losses: names of rows of `emoji_losses`.
        ensembles: names of rows of `emoji_ensembles`.
        levels: names of rows of `emoji_ranked_list`.
        differences: pairs of names of rows, besides those that each such study has.
    """
    of_rate = [[f"--optimizer=adam(learning_rate={rate})"] for rate in emoji_ensembles.MORE_RATES]
    return Study(
        flagfile=flagfile,
        rows={
            **{name: emoji_losses.CHANGES[name] for name in losses},
            **{name: emoji_ensembles.CHANGES[name] for name in ensembles},
            **{name: emoji_ranked_list.CHANGES[name] for name in levels},
            **{name: [*change, TRIPLET] for name, change in DIVIDED.items()},
        },
        columns=COLUMNS,
        folder=folder,
        settings={
            **{name: emoji_losses.settings_of(name) for name in losses},
            **{name: emoji_ensembles.settings_of(*emoji_ensembles.METHODS[name]) for name in ensembles},
            **{name: of_rate for name in (*levels, *DIVIDED)},
        },
        searching=SEARCHING,
        differences=[*DIFFERENCES, *differences],
    )
