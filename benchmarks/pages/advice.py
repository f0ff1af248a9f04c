"""Two tables of changes to the default configuration, with their effect on each dataset and a recommendation."""

from typing import NamedTuple

from benchmarks.markdown import markdown
from benchmarks.pages.claims import CLAIMS, expected, text_of
from benchmarks.pages.effects import differences_of, has_one_seed, linked
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.studies.rows import cars_training, emoji_training

LONG = ", four times the steps"
# Both have three levels and start from components after whitening within classes.
OF_RECIPE = "Proxy-NCA, three levels, from WCCN minus N-pair, three levels, from WCCN"
# The first row does not compare anything.
OF_IMAGES = "(Images per class, for orientation; not a comparison)"
# Approximate number of images per class.
IMAGES = {"toy cars": 40, "emoji": 6, "omniglot": 20, "cars": 41}


class Change(NamedTuple):
    """A choice between two settings.

    Args:
        text: The first setting vs. the second.
        shown: Dictionary from a dataset to a page and a text `A minus B`, which is above 0 if the first is better.
        so: Recommendation.
        claims: Dictionary from a dataset to what `so` claims about it, one of `CLAIMS`. Other datasets are not checked.
    """

    text: str
    shown: dict
    so: str
    claims: dict


def of_losses(pair):
    """Returns a dictionary from each dataset to its page on losses and a pair that all of these pages have."""
    pages = {"toy cars": "ranked_list_losses", "emoji": "emoji_losses", "omniglot": "omniglot", "cars": "cars_losses"}
    return {name: (page, pair) for name, page in pages.items()}


EFFECTS = {effect.text: effect.shown for effects in PAPERS.values() for effect in effects}
CHANGES = [
    Change(
        "Three feature levels (`multilevel`) vs. one level",
        EFFECTS["Three feature levels beat one"],
        "use three feature levels",
        {"toy cars": "better", "emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "Three feature levels vs. one level with the same total size",
        {
            "emoji": ("emoji_ranked_list", "L, M, H minus H, 384 dimensions"),
            "omniglot": ("omniglot", "L, M, H minus H, 384 dimensions"),
            "cars": ("cars_ranked_list", "L, M, H minus H, 384 dimensions"),
        },
        "the gain is not due to the larger embedding",
        {"emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "Four heads with attention vs. one head",
        {
            "emoji": ("emoji_ensembles", f"4-heads+att{LONG} minus 1-head{LONG}"),
            "omniglot": ("omniglot", "4-heads+att minus 1-head"),
            "cars": ("cars_ensembles", "4-heads+att minus 1-head"),
        },
        "the second best method",
        {"emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "`attention_ensemble` with four learners vs. one head",
        {
            "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus 1-head{LONG}"),
            "omniglot": ("omniglot", "ABE-4 minus 1-head"),
            "cars": ("cars_main", "ABE-4 minus 1-head"),
        },
        "only for long training",
        {"emoji": "better", "omniglot": "alike", "cars": "better"},
    ),
    Change(
        "`divide_and_conquer` with four learners vs. a single embedding",
        EFFECTS["Divide and Conquer beats a single embedding"],
        "no confirmed gain",
        {"toy cars": "alike", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`n_pair` vs. semi-hard triplets",
        of_losses("N-pair minus triplet, semi-hard"),
        "start with `n_pair`",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`ranked_list` vs. `n_pair`",
        {
            "toy cars": ("ranked_list_losses", "ranked list, simpler minus N-pair"),
            "emoji": ("emoji_losses", "ranked list minus N-pair"),
            "omniglot": ("omniglot", "H minus N-pair"),
            "cars": ("cars_losses", "ranked list minus N-pair"),
        },
        "makes little difference",
        {"emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`soft_triple` vs. `n_pair`",
        of_losses("SoftTriple minus N-pair"),
        "only with about 40 images per class",
        {"toy cars": "better", "emoji": "worse", "omniglot": "alike", "cars": "better"},
    ),
    Change(
        "`proxy_nca` vs. `n_pair`",
        of_losses("Proxy-NCA minus N-pair") | {"cars": ("cars_main", "Proxy-NCA minus N-pair")},
        "confirmed only on toy cars",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`proxy_nca` vs. `n_pair`, in the default configuration",
        {
            "toy cars": ("toycars_recipe", OF_RECIPE),
            "emoji": ("emoji_recipe", OF_RECIPE),
            "omniglot": ("omniglot", OF_RECIPE),
            "cars": ("cars_main", OF_RECIPE),
        },
        "keep `n_pair` with ImageNet weights",
        {"toy cars": "better", "emoji": "worse", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "Hard negatives vs. random negatives in the `lifted_structure` loss",
        EFFECTS["Hard negatives beat random negatives"],
        "not with ImageNet weights",
        {"toy cars": "better", "emoji": "alike", "cars": "alike"},
    ),
    Change(
        "Five or ten EDMS members vs. two",
        EFFECTS["More ensemble members beat two"],
        "if the cost does not matter",
        {"toy cars": "better", "emoji": "better", "cars": "better"},
    ),
    Change(
        "Four times the training steps for a single embedding (toy cars: `margin`, emoji: `n_pair`, cars: `triplet`)",
        {
            "toy cars": ("divide_and_conquer", f"one embedding{LONG} minus one embedding"),
            "emoji": ("emoji_losses", f"N-pair{LONG} minus N-pair"),
            "cars": ("cars_divide", f"one embedding{LONG} minus one embedding"),
        },
        "if you have the time",
        {"toy cars": "better", "emoji": "better", "cars": "alike"},
    ),
    Change(
        "MobileNetV2 of full width vs. width 0.35",
        {
            "emoji": ("emoji_training", f"MobileNetV2 of full width minus {emoji_training.FIRST}"),
            "cars": ("cars_training", f"MobileNetV2 of full width minus {cars_training.FIRST}"),
        },
        "if you have the time",
        {"emoji": "better", "cars": "better"},
    ),
    Change(
        "Images of 96 vs. 64 pixels (cars: 128 vs. 96)",
        {
            "emoji": ("emoji_losses", "N-pair, at 96 px minus N-pair"),
            "cars": ("cars_training", f"128 px, at the same rate minus {cars_training.FIRST}"),
        },
        "larger images, until details are visible",
        {"emoji": "better", "cars": "better"},
    ),
]


def table(recorded_of):
    """Returns the Markdown table of all changes: bold if the difference is conclusive, italic for one seed.

    Args:
        recorded_of: Function from the name of a page to its `Recorded` study.

    Raises:
        ValueError: If the records contradict a recommendation.
    """
    rows = [[OF_IMAGES, *(str(IMAGES[name]) for name in SETS), ""]]
    for change in CHANGES:
        found = differences_of(change.shown, recorded_of)
        _check(change, found)
        cells = [_cell(found[name], has_one_seed(change.shown, name)) if name in found else "" for name in SETS]
        rows.append([change.text, *cells, change.so])
    return markdown(["Change in Recall@1, in percentage points", *SETS.values(), "Recommendation"], rows)


def intervals(recorded_of):
    """Returns the Markdown table of all changes with their confidence intervals, each a link to its page.

    Args:
        recorded_of: Function from the name of a page to its `Recorded` study.
    """
    rows = [[OF_IMAGES, *(str(IMAGES[name]) for name in SETS)]]
    rows += [[change.text, *linked(change.shown, differences_of(change.shown, recorded_of))] for change in CHANGES]
    return markdown(["Change", *SETS.values()], rows)


def _check(change, found):
    for name, claim in change.claims.items():
        difference = found[name]
        # A claim that two rows are alike has no direction.
        turns = claim == "alike" and difference.mean < 0
        if not CLAIMS[claim](difference.turned() if turns else difference):
            raise ValueError(
                f"{change.text!r}, {change.so!r}: expected {expected(claim)} on {name}. "
                f"The records have {text_of(difference)}."
            )


def _cell(difference, one_seed):
    number = text_of(difference).partition(" ")[0]
    mark = "**" * difference.is_significant + "*" * one_seed
    return f"{mark}{number}{mark}"
