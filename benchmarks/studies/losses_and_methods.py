"""Applies losses and methods of the emoji studies to other datasets, to see what generalizes."""

from benchmarks.studies.rows import emoji_divide, emoji_ensembles, emoji_lifted, emoji_losses, emoji_ranked_list
from benchmarks.studies.rows.emoji_losses import COLUMNS, SEARCHING
from tfdml.run.study.study import Study

FIRST = "triplet, semi-hard"
DIVIDED = ("K = 4", "K = 4, turns on all data", "K = 4, embedding not split")
# Each difference is the second row minus the first.
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
# The start of the default configuration, with its loss and with a proxy-based loss.
BEGUN = ", three levels, from WCCN"
BEGUN_ROWS = {
    f"{name}{BEGUN}": [*emoji_ranked_list.levels("LMH"), "--initial_embedding=wccn"] for name in ("N-pair", "Proxy-NCA")
}
BEGUN_FOLLOW = {name: name.removesuffix(BEGUN) for name in BEGUN_ROWS}


def rates(names):
    """Returns four settings for each row, with different learning rates."""
    return {
        name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in emoji_ensembles.MORE_RATES] for name in names
    }


def losses_and_methods(
    flagfile,
    folder,
    *,
    losses,
    ensembles,
    levels,
    divided=DIVIDED,
    lifted=(),
    more=None,
    settings=None,
    follow=None,
    differences=(),
    columns=COLUMNS,
):
    """Returns a study of losses and methods by their names on emoji, with four settings each.

    Args:
        flagfile: Path of the flagfile that every row changes.
        folder: Folder of the run directories.
        losses: Names of rows of `emoji_losses`.
        ensembles: Names of rows of `emoji_ensembles`.
        levels: Names of rows of `emoji_ranked_list`.
        divided: Names of rows of `emoji_divide`.
        lifted: Names of rows of `emoji_lifted`.
        more: Dictionary from the names of other rows to their flags.
        settings: Dictionary from the names of other rows to their settings, if they do not follow another row.
        follow: Dictionary from the names of rows to the rows with the same settings.
        differences: Pairs of names of rows, in addition to `DIFFERENCES`.
        columns: Columns of the table.
    """
    follow = follow or {}
    all_settings = {
        **{name: emoji_losses.settings_of(name) for name in losses},
        **{name: emoji_ensembles.settings_of(*emoji_ensembles.METHODS[name]) for name in ensembles},
        **rates((*levels, *divided)),
        **{name: emoji_lifted.SETTINGS[name] for name in lifted},
        **(settings or {}),
    }
    rows = {
        **{name: emoji_losses.CHANGES[name] for name in losses},
        **{name: emoji_ensembles.CHANGES[name] for name in ensembles},
        **{name: emoji_ranked_list.CHANGES[name] for name in levels},
        **{name: emoji_divide.CHANGES[name] for name in divided},
        **{name: emoji_lifted.CHANGES[name] for name in lifted},
        **(more or {}),
    }
    return Study(
        flagfile=flagfile,
        rows=rows,
        columns=columns,
        folder=folder,
        settings={name: tried for name, tried in all_settings.items() if name not in follow},
        searching=SEARCHING,
        follow=follow,
        differences=[*(pair for pair in DIFFERENCES if rows.keys() >= set(pair)), *differences],
    )
