"""The table of docs/choosing.md: points that changes of the recipe win on each set, and the advice that follows."""

from typing import NamedTuple

from benchmarks.markdown import markdown
from benchmarks.pages.claims import CLAIMS, MEANINGS, text_of
from benchmarks.pages.effects import differences_of, has_one_seed
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.studies.rows import cars_training, emoji_training

LONG = ", four times the steps"
# Three levels that start from components after whitening within classes.
OF_RECIPE = "Proxy-NCA, three levels, from WCCN minus N-pair, three levels, from WCCN"
# About how many images a class has.
IMAGES = {"toy cars": 40, "emoji": 6, "omniglot": 20, "cars": 41}


class Change(NamedTuple):
    """Something to take in place of something else.

    Args:
        text: what is changed.
        shown: set to a pair of the page and of `A minus B`, which is above 0 if the change wins.
        so: what follows for a reader.
        claims: set to what `so` says of it, one of `CLAIMS`. Sets that are left out decide nothing.
    """

    text: str
    shown: dict
    so: str
    claims: dict


def of_losses(pair):
    """Returns the sets to the pages that compare losses, and to a pair that all of these have."""
    pages = {"toy cars": "ranked_list_losses", "emoji": "emoji_losses", "omniglot": "omniglot", "cars": "cars_losses"}
    return {name: (page, pair) for name, page in pages.items()}


EFFECTS = {effect.text: effect.shown for effects in PAPERS.values() for effect in effects}
CHANGES = [
    Change(
        "`multilevel` of three depths, not of one",
        EFFECTS["Three levels beat one"],
        "take three depths",
        {"toy cars": "better", "emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "three depths, not one of as many dimensions",
        {
            "emoji": ("emoji_ranked_list", "L, M, H minus H, 384 dimensions"),
            "omniglot": ("omniglot", "L, M, H minus H, 384 dimensions"),
            "cars": ("cars_ranked_list", "L, M, H minus H, 384 dimensions"),
        },
        "it is not the dimensions",
        {"emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "four heads with attention, not one head",
        {
            "emoji": ("emoji_ensembles", f"4-heads+att{LONG} minus 1-head{LONG}"),
            "omniglot": ("omniglot", "4-heads+att minus 1-head"),
            "cars": ("cars_ensembles", "4-heads+att minus 1-head"),
        },
        "the next best",
        {"emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "`attention_ensemble` of four, not one head",
        {
            "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus 1-head{LONG}"),
            "omniglot": ("omniglot", "ABE-4 minus 1-head"),
            "cars": ("cars_main", "ABE-4 minus 1-head"),
        },
        "only where training is long",
        {"emoji": "better", "omniglot": "alike", "cars": "better"},
    ),
    Change(
        "`divide_and_conquer` of four, not one embedding",
        EFFECTS["Dividing beats one embedding"],
        "not seen to win",
        {"toy cars": "alike", "emoji": "alike", "omniglot": "alike", "cars": "worse"},
    ),
    Change(
        "`n_pair`, not semi-hard triplets",
        of_losses("N-pair minus triplet, semi-hard"),
        "begin with `n_pair`",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`ranked_list`, not `n_pair`",
        {
            "toy cars": ("ranked_list_losses", "ranked list, simpler minus N-pair"),
            "emoji": ("emoji_losses", "ranked list minus N-pair"),
            "omniglot": ("omniglot", "H minus N-pair"),
            "cars": ("cars_losses", "ranked list minus N-pair"),
        },
        "hardly matters",
        {"emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`soft_triple`, not `n_pair`",
        of_losses("SoftTriple minus N-pair"),
        "only with 40 images a class",
        {"toy cars": "better", "emoji": "worse", "omniglot": "alike", "cars": "better"},
    ),
    Change(
        "`proxy_nca`, not `n_pair`",
        of_losses("Proxy-NCA minus N-pair") | {"cars": ("cars_main", "Proxy-NCA minus N-pair")},
        "seen only on toy cars",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`proxy_nca`, not `n_pair`, in the recipe",
        {
            "toy cars": ("toycars_recipe", OF_RECIPE),
            "emoji": ("emoji_recipe", OF_RECIPE),
            "omniglot": ("omniglot", OF_RECIPE),
            "cars": ("cars_main", OF_RECIPE),
        },
        "keep `n_pair` with ImageNet's weights",
        {"toy cars": "better", "emoji": "worse", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "hard neighbors, not random negatives",
        EFFECTS["Hard neighbors beat random negatives"],
        "not with ImageNet's weights",
        {"toy cars": "better", "emoji": "alike", "cars": "alike"},
    ),
    Change(
        "five or ten members of EDMS, not two",
        EFFECTS["More members beat two"],
        "if cost does not matter",
        {"toy cars": "better", "emoji": "better", "cars": "better"},
    ),
    Change(
        "four times the steps",
        {
            "toy cars": ("divide_and_conquer", f"one embedding{LONG} minus one embedding"),
            "emoji": ("emoji_losses", f"N-pair{LONG} minus N-pair"),
            "cars": ("cars_divide", f"one embedding{LONG} minus one embedding"),
        },
        "if you have the time",
        {"toy cars": "better", "emoji": "better", "cars": "better"},
    ),
    Change(
        "a network of full width, not 0.35",
        {
            "emoji": ("emoji_training", f"MobileNetV2 of full width minus {emoji_training.FIRST}"),
            "cars": ("cars_training", f"MobileNetV2 of full width minus {cars_training.FIRST}"),
        },
        "if you have the time",
        {"emoji": "better", "cars": "better"},
    ),
    Change(
        "images of 96 pixels, not 64; of cars 128, not 96",
        {
            "emoji": ("emoji_losses", "N-pair, at 96 px minus N-pair"),
            "cars": ("cars_training", f"128 px, at the same rate minus {cars_training.FIRST}"),
        },
        "larger, until details are seen",
        {"emoji": "better", "cars": "better"},
    ),
]


def table(recorded_of):
    """Returns the Markdown table of what changes win: bold where the interval does not contain 0, italic of one seed.

    What a row says, and the records of a set do not hold, is an error.

    Args:
        recorded_of: function of a page's name that gives its `Recorded` study.
    """
    rows = [["images a class", *(str(IMAGES[name]) for name in SETS), ""]]
    for change in CHANGES:
        found = differences_of(change.shown, recorded_of)
        _check(change, found)
        cells = [_cell(found[name], has_one_seed(change.shown, name)) if name in found else "" for name in SETS]
        rows.append([change.text, *cells, change.so])
    return markdown(["points of Recall@1 won by", *SETS.values(), "so"], rows)


def _check(change, found):
    for name, claim in change.claims.items():
        difference = found[name]
        # That two are alike has no direction.
        turns = claim == "alike" and difference.mean < 0
        if not CLAIMS[claim](difference.turned() if turns else difference):
            raise ValueError(
                f"{change.text!r}, {change.so!r}: expected {MEANINGS[claim]} on {name}, "
                f"the records have {text_of(difference)}."
            )


def _cell(difference, one_seed):
    number = text_of(difference).partition(" ")[0]
    mark = "**" * difference.is_significant + "*" * one_seed
    return f"{mark}{number}{mark}"
