"""Tables of changes to the default configuration: their effect on each dataset, and how it depends on visits."""

from typing import NamedTuple

from benchmarks.markdown import markdown
from benchmarks.pages.amounts import facts_of, flags_of, rate_of, visits_per_class
from benchmarks.pages.claims import CLAIMS, difference_of, expected, text_of
from benchmarks.pages.contrasts import contrast, corrected
from benchmarks.pages.effects import differences_of
from benchmarks.pages.links import link_of
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.studies.rows import cars_training, decisive, emoji_training
from tfdml.run.study.driver import reached

# The folder of the pages, from docs/setting_effects.md.
PAGES = "evidence/"
LONG = ", four times the steps"
# Both have three levels and start from components after whitening within classes.
OF_RECIPE = "Proxy-NCA, three levels, from WCCN minus N-pair, three levels, from WCCN"
# Numbers of training classes without the validation classes, of a dataset or of a page that has others, and of their
# images.
CLASSES = {"toy cars": 100, "emoji": 543, "omniglot": 93, "cars": 78, "validation_by_maker": 79}
IMAGES = {"toy cars": 40, "emoji": 6, "omniglot": 20, "cars": 41}
NETWORKS = {
    **dict.fromkeys(SETS, "MobileNetV2, ImageNet weights"),
    "toy cars": "Small CNN, pretrained on other toy cars",
}
PROXIES = "Proxy-NCA minus N-pair"
# The dataset, page and pair of each row of the table of visits.
OF_VISITS = [
    ("emoji", "emoji_losses", PROXIES),
    ("omniglot", "omniglot", PROXIES),
    ("cars", "cars_main", PROXIES),
    ("toy cars", "ranked_list_losses", PROXIES),
    ("emoji", "emoji_losses", f"NormSoftmax{LONG} minus N-pair{LONG}"),
    ("cars", "cars_losses", f"Proxy-NCA{LONG} minus N-pair{LONG}"),
]
# The dataset, page, row and model of each row of the table of learning rates, all searched at full length.
OF_RATES = [
    ("emoji", "advice_on_emoji", decisive.THREE, "Three levels, from discriminants"),
    ("emoji", "advice_on_emoji", decisive.HEADS, "Three heads of one depth, from discriminants"),
    ("cars", "decisive", decisive.THREE, "Three levels"),
    ("cars", "decisive", decisive.HEADS, "Three heads of one depth"),
    ("cars", "decisive", decisive.TRAINED_LEVELS, "Three levels, from discriminants"),
    ("cars", "decisive", decisive.RANKED, "One embedding, ranked list loss"),
    ("cars", "validation_by_maker", decisive.THREE, "Three levels, validation classes of other makers"),
    ("cars", "validation_by_maker", decisive.HEADS, "Three heads of one depth, validation classes of other makers"),
]
NONE = "–"


class Change(NamedTuple):
    """A choice between two settings.

    Args:
        text: The first setting vs. the second.
        shown: Dictionary from a dataset to a source and a text `A minus B`, which is above 0 if the first is better.
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
        "levels help at equal size; on emoji, size is a part of the gain",
        {"emoji": "better", "omniglot": "better", "cars": "better"},
    ),
    Change(
        "Three feature levels vs. three heads of one depth with as many parameters or more",
        EFFECTS["Three feature levels beat three heads of one depth"]
        | {"cars": ("decisive", f"{decisive.THREE} minus {decisive.HEADS}")},
        "depth is a part of the gain",
        {"emoji": "better", "cars": "better"},
    ),
    Change(
        "Three trained feature levels vs. discriminants of frozen features",
        EFFECTS["Training improves over linear discriminants of frozen features"]
        | {"cars": ("decisive", f"{decisive.TRAINED_LEVELS} minus {decisive.FROZEN}")},
        "train if you have half an hour",
        {"emoji": "better", "cars": "better"},
    ),
    Change(
        "Four heads with attention vs. one head",
        {
            "emoji": ("emoji_ensembles", f"4-heads+att{LONG} minus 1-head{LONG}"),
            "omniglot": ("omniglot", "4-heads+att minus 1-head"),
            "cars": ("cars_ensembles", "4-heads+att minus 1-head"),
        },
        "several heads help; that attention adds to them is not confirmed",
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
        "at most for very long training",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
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
            "cars": ("cars_main", "H minus N-pair"),
        },
        "no confirmed difference",
        {"emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`soft_triple` vs. `n_pair`",
        of_losses("SoftTriple minus N-pair"),
        "compare with 100 or more visits per class",
        {"toy cars": "better", "emoji": "worse", "omniglot": "alike", "cars": "better"},
    ),
    Change(
        "`proxy_nca` vs. `n_pair`",
        of_losses("Proxy-NCA minus N-pair") | {"cars": ("cars_main", "Proxy-NCA minus N-pair")},
        "confirmed only on toy cars",
        {"toy cars": "better", "emoji": "alike", "omniglot": "alike", "cars": "alike"},
    ),
    Change(
        "`proxy_nca` vs. `n_pair`, three levels from WCCN",
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
        "no confirmed gain with ImageNet weights",
        {"toy cars": "better", "emoji": "alike", "cars": "alike"},
    ),
    Change(
        "Five or ten EDMS members vs. two",
        EFFECTS["More ensemble members beat two"],
        "if the cost does not matter",
        {"toy cars": "better", "emoji": "better", "cars": "better"},
    ),
    Change(
        "Four times the training steps for a single embedding with `n_pair`",
        {
            "emoji": ("emoji_losses", f"N-pair{LONG} minus N-pair"),
            "cars": ("cars_losses", f"N-pair{LONG} minus N-pair"),
        },
        "if you have the time",
        {"emoji": "better", "cars": "alike"},
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
            "cars": ("cars_training", f"128 px minus {cars_training.FIRST}"),
        },
        "larger images, until details are visible",
        {"emoji": "better", "cars": "better"},
    ),
]


def table(recorded_of):
    """Returns the Markdown table of all changes with their confidence intervals, each a link to its page.

    A difference is bold if it is significant after the correction for all differences in the table.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.

    Raises:
        ValueError: If the records contradict a recommendation.
    """
    found = {change.text: differences_of(change.shown, recorded_of) for change in CHANGES}
    confirmed = _confirmed(recorded_of)
    rows = []
    for change in CHANGES:
        differences = found[change.text]
        _check(change, differences)
        cells = []
        for name in SETS:
            mark = "**" * ((change.text, name) in confirmed)
            told = f"{mark}{text_of(differences[name])}{mark}" if name in differences else NONE
            cells.append(f"[{told}]({PAGES}{link_of(*change.shown[name])})" if name in differences else NONE)
        rows.append([change.text, *cells, change.so])
    return markdown(["Change", *SETS.values(), "Recommendation"], rows)


def visits(recorded_of):
    """Returns the Markdown table of losses with proxies minus N-pair loss, in the order of the visits per class.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    rows = []
    for name, page, pair in OF_VISITS:
        recorded, row = recorded_of(page), pair.partition(" minus ")[0]
        record = recorded.records(row)[0]
        steps, count = record["result"]["step"], visits_per_class(record, CLASSES[name])
        rate = facts_of(recorded, *pair.split(" minus "))["control_rate"]
        about = [SETS[name], NETWORKS[name], str(CLASSES[name]), str(IMAGES[name]), f"{steps:,}", f"{count:.0f}", rate]
        rows.append((count, [*about, row.partition(",")[0], text_of(difference_of(recorded, pair))]))
    heads = ["Dataset", "Network", "Training classes", "Images per class", "Steps", "Visits per class"]
    heads += ["Learning rate of N-pair loss", "Loss with proxies", "Minus N-pair loss"]
    return markdown(heads, [cells for _, cells in sorted(rows, key=lambda row: row[0])])


def rates(recorded_of):
    """Returns the Markdown table of learning rates with Recall@1 on validation and test classes.

    The highest score of a model is bold, once on validation and once on test classes. The runs are those of the search.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    rows = []
    for name, page, row, model in OF_RATES:
        records = recorded_of(page).trials(row)
        results = {rate_of(flags_of(record)): record["result"] for record in records}
        classes = CLASSES.get(page, CLASSES[name])
        about = [SETS[name], model, f"{visits_per_class(records[0], classes):.0f}"]
        validation = {rate: reached(result, "best") for rate, result in results.items()}
        test = {rate: result["best"]["recall_at_1"] for rate, result in results.items()}
        rows.append([*about, *_with_the_best_bold(validation), *_with_the_best_bold(test)])
    heads = [f"{classes}, {rate}" for classes in ("Validation", "Test") for rate in decisive.RATES]
    return markdown(["Dataset", "Model", "Visits per class", *heads], rows)


def _with_the_best_bold(recall_of):
    """Returns a table cell for each of the rates, from a dictionary from those that were tried to Recall@1."""
    recalls = [recall_of.get(float(rate)) for rate in decisive.RATES]
    told = [NONE if recall is None else f"{100 * recall:.1f}" for recall in recalls]
    best = max(recall_of.values())
    return [f"**{text}**" if recall == best else text for recall, text in zip(recalls, told, strict=True)]


def _confirmed(recorded_of):
    """Returns pairs of a change and a dataset with a difference that is significant among all of the table."""
    contrasts = {}
    for change in CHANGES:
        for name, (page, pair) in change.shown.items():
            recorded, rows = recorded_of(page), pair.split(" minus ")
            contrasts[change.text, name] = contrast((1, -1), *recorded.recalls(rows), names=recorded.names(rows))
    p_values = corrected(list(contrasts.values()))
    return {key for key, p_value in zip(contrasts, p_values, strict=True) if p_value < 0.05}


def _check(change, found):
    for name, claim in change.claims.items():
        difference = found[name]
        # A claim that two rows are alike or equal has no direction.
        turns = claim in ("alike", "equal") and difference.mean < 0
        if not CLAIMS[claim](difference.turned() if turns else difference):
            raise ValueError(
                f"{change.text!r}, {change.so!r}: expected {expected(claim)} on {name}. "
                f"The records have {text_of(difference)}."
            )
