"""The effects that papers claim, the differences between rows that would confirm them, and what the tests lack."""

from typing import NamedTuple

from benchmarks.pages.verdicts import ABSENCE, EITHER, PRESENCE
from benchmarks.studies.rows import decisive

SETS = {"toy cars": "Toy cars", "emoji": "Emoji", "omniglot": "Omniglot", "cars": "Cars"}
# Whose number the paper compares with.
OWN, OTHERS, COPIED = "own run", "another paper's run", "copied number"


class Reported(NamedTuple):
    """The effect that a paper reports.

    Args:
        points: Difference in Recall@1, in percentage points.
        where: Its dataset and table.
        baseline: Whose run the lower number is from: `OWN`, `OTHERS` or `COPIED`.
        images: Number of images that each learner trains on in the paper, or empty if the paper does not specify it.
        note: Sentence about other numbers of the paper, or empty.
    """

    points: float
    where: str
    baseline: str = OWN
    images: str = ""
    note: str = ""


class Deviation(NamedTuple):
    """A difference between our rows and the paper that plausibly explains the outcome.

    Args:
        text: What differs, to follow "because". Names in braces are keys of `amounts.facts_of`.
        explains: `ABSENCE` of an effect, `PRESENCE` or `EITHER`.
    """

    text: str
    explains: str = ABSENCE


class Decided(NamedTuple):
    """Rows of the study `decisive` that decide a claim. If there are several rows, validation chooses one.

    Args:
        claim: Number of the claim in that study.
        better: Names of the rows that should be better.
        control: Names of the rows to compare with.
        less: Names of two rows, or none. Their difference is subtracted.
        seeds: The reported seeds.
        is_main: Whether this is the main difference of the claim, which is corrected for the number of claims.
    """

    claim: str
    better: tuple
    control: tuple
    less: tuple = ()
    seeds: tuple = (1, 2, 3, 4, 5)
    is_main: bool = False


class Effect(NamedTuple):
    """An effect that a paper claims.

    Args:
        text: The claim.
        shown: Dictionary from a dataset to a source and a text `A minus B`. The difference is above 0 if the claim
            holds.
        reported: The `Reported` effect, or None if the paper prints no number.
        deviations: Dictionary from a dataset to its `Deviation`.
        decided: The `Decided` rows, or None.
        tells: The rows that would change our mind and their hours on two CPU cores.
        note: Sentences about the evidence, or empty.
        is_equality: Whether the claim is that the two rows are equal.
    """

    text: str
    shown: dict
    reported: Reported | None = None
    deviations: dict = {}
    decided: Decided | None = None
    tells: str = ""
    note: str = ""
    is_equality: bool = False


LONG, LONGEST = ", four times the steps", ", eight times the steps"
BY_IMAGES = "K = 4, in proportion to images"
FULL, N_PAIR = "EDMS (RW, P*)", "EDMS (w/o), P×K batches"
TWO = f"{N_PAIR}, 272 meta-classes"
FIRST = "α = 1.2, m = 0.4, T_n = 10"
RANKED = "ranked list, simpler minus"
PLAIN = "hard neighbors"

# What the rows of Divide and Conquer lack.
CONQUER = "there is no conquer step at the end, and each learner trains on {images} images instead of about 400,000"
STEPS = "each learner has {steps} steps, and the embedding that is not split has {control_steps}"
CLUSTERS = "each learner has {steps} steps, and {changed} of the images changed their cluster at the last reclustering"
# The number of images of each learner on Cars196 and SOP.
OF_CARS, OF_SOP = "about 400,000 (Cars196)", "about 600,000"
# What the rows of Attention-based Ensemble lack.
MASKS = (
    "masks have {mask} places instead of 14 × 14, and ABE starts {start} points below heads, because frozen batch norm "
    "does not know masked features"
)
RATES = "validation chose different learning rates in short runs, {rate} for ABE-4 and {control_rate} for the other row"
# What the rows of EDMS lack.
PARTNERS = "{alone} of the anchors of a batch have no positive image, which proxies replace"
WALKS = "{alone} of the anchors of a batch have no positive image, which walks may reach"
HARD = "hard proxies have 1,000 steps of equation (7), which was not searched, and there are 2 members instead of 25"
FEW = "there are 2 members instead of 25"
# What ranked list loss is compared with.
SOFTMAX = (
    "our N-pair loss is a tuned softmax loss over all pairs with a temperature, probably a stronger baseline than the "
    "paper's"
)
OF_RLL, OF_EDMS = "660,000", "58,640"
MORE_CLASSES = "more test classes, because on 98 the choice of classes alone hides effects below about 1.6 points"
COPIED_N_PAIR = (
    "Table III prints +19.8 over N-pair loss (53.9), a number that is copied from 2016. Three other papers print 71.1 "
    "for N-pair loss on Cars196."
)

# If a dataset has runs of several lengths, the longest ones count.
PAPERS = {
    "Divide and Conquer": [
        Effect(
            "Divide and Conquer beats a single embedding",
            {
                "toy cars": ("divide_and_conquer", f"{BY_IMAGES}{LONGEST} minus one embedding{LONGEST}"),
                "emoji": ("emoji_divide", f"K = 4{LONG} minus one embedding{LONG}"),
                "omniglot": ("omniglot", "K = 4 minus triplet, semi-hard"),
                "cars": ("cars_divide", f"{BY_IMAGES}{LONG} minus one embedding{LONG}"),
            },
            Reported(
                2.3,
                "CUB, triplet loss, Table 3",
                images=OF_CARS,
                note="+5.0 on Cars196 (Table 2) is over a copied number.",
            ),
            {name: Deviation(CONQUER) for name in SETS},
            Decided("2", (decisive.DIVIDED,), (decisive.UNDIVIDED,), is_main=True),
            "6,400 steps with margin loss, stable clusters and a conquer step, 5 seeds (8 hours); one pair with 25,600 "
            "steps (4 hours)",
        ),
        Effect(
            "Clusters beat random groups",
            {
                "toy cars": (
                    "divide_and_conquer",
                    "K = 4, in proportion to images minus K = 4, random clusters, in proportion to images",
                ),
                "emoji": ("emoji_divide", "K = 4 minus K = 4, random images"),
                "cars": ("cars_divide", "K = 4 minus K = 4, random images"),
            },
            Reported(2.7, "SOP, Table 6", images=OF_SOP),
            {name: Deviation(CLUSTERS) for name in ("toy cars", "emoji", "cars")},
            Decided("2", (decisive.DIVIDED,), (decisive.RANDOM,)),
            "stable clusters and 6,400 steps, 5 seeds (8 hours)",
        ),
        Effect(
            "Splitting the embedding helps",
            {
                "toy cars": ("divide_and_conquer", "K = 4 minus K = 4, embedding not split"),
                "emoji": ("emoji_divide", "K = 4 minus K = 4, embedding not split [5 seeds]"),
                "omniglot": ("omniglot", "K = 4 minus K = 4, embedding not split"),
                "cars": ("cars_divide", "K = 4 minus K = 4, embedding not split"),
            },
            Reported(0.9, "SOP, Table 6", images=OF_SOP),
            {name: Deviation(STEPS) for name in SETS},
            Decided("2", (decisive.DIVIDED,), (decisive.UNSPLIT_SHORT,)),
            "the same number of steps per learner, 5 seeds (6 hours); an effect of 0.9 points needs more test classes",
        ),
    ],
    "Attention-based Ensemble": [
        Effect(
            "Several learners beat one (ABE-4 vs. ABE-1)",
            {
                "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus ABE-1{LONG}"),
                "omniglot": ("omniglot", "ABE-4 minus ABE-1"),
                "cars": ("cars_ensembles", "ABE-4 minus ABE-1"),
            },
            Reported(15.2, "Cars196, Table 1"),
            {"emoji": Deviation(RATES, PRESENCE)},
            tells="ABE-1 and ABE-4 with their own learning rates, 6,400 steps, 3 seeds (12 hours)",
        ),
        Effect(
            "The divergence loss helps",
            {
                "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus ABE-4 without divergence{LONG}"),
                "cars": ("cars_ensembles", "ABE-4 minus ABE-4 without divergence"),
            },
            Reported(15.5, "Cars196, ABE-8, Table 2"),
            {"emoji": Deviation(RATES, PRESENCE)},
            Decided("4", (decisive.ABE,), (decisive.NO_DIVERGENCE,), seeds=(1, 2, 3)),
            "masks of 12 × 12 places and 6,400 steps, each row with its own learning rate, 3 seeds (12 hours)",
            "On cars, the row without divergence loss has the learning rate that validation chose for ABE-4.",
        ),
        Effect(
            "Attention beats heads (ABE-4 vs. 4 heads)",
            {
                "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus 4-heads{LONG}"),
                "omniglot": ("omniglot", "ABE-4 minus 4-heads"),
                "cars": ("cars_main", "ABE-4 minus 4-heads"),
            },
            Reported(5.9, "Cars196, Table 1"),
            {name: Deviation(MASKS) for name in ("emoji", "omniglot", "cars")},
            Decided("4", (decisive.ABE,), (decisive.FOUR_HEADS,), seeds=(1, 2, 3), is_main=True),
            "masks of 12 × 12 places that start from 0.95, 6,400 steps, 3 seeds (12 hours)",
        ),
        Effect(
            "Attention beats heads (ABE-8 vs. 8 heads)",
            {"cars": ("cars_learners", "ABE-8 minus 8-heads")},
            Reported(9.1, "Cars196, Table 1"),
            {"cars": Deviation(MASKS)},
            tells="the same with 8 learners, if it comes out with 4 (16 hours)",
        ),
        Effect(
            "Adding attention to heads helps",
            {
                "emoji": ("emoji_ensembles", f"4-heads+att{LONG} minus 4-heads{LONG}"),
                "omniglot": ("omniglot", "4-heads+att minus 4-heads"),
                "cars": ("cars_ensembles", "4-heads+att minus 4-heads"),
            },
            Reported(3.6, "Cars196, 8 heads, supplement"),
            tells="two more seeds on cars (4 hours)",
        ),
    ],
    "EDMS": [
        Effect(
            "More ensemble members beat two",
            {
                "toy cars": ("edms_variants", f"{FULL}, 10 members minus {FULL}"),
                "emoji": ("emoji_edms", f"{TWO}, 5 members minus {TWO}"),
                "cars": ("cars_edms", f"{N_PAIR}, 39 meta-classes, 5 members minus {N_PAIR}, 39 meta-classes"),
            },
            note="The paper has a curve (Figure 4).",
        ),
        Effect(
            "Random walks within a batch reduce Recall@1",
            {
                "toy cars": ("edms_variants", "EDMS (w/o) minus EDMS (RW)"),
                "emoji": ("emoji_edms", "EDMS (w/o) minus EDMS (RW)"),
                "cars": ("cars_edms", "EDMS (w/o) minus EDMS (RW)"),
            },
            Reported(2.6, "CUB, Table 2", images=OF_EDMS),
            {name: Deviation(WALKS, EITHER) for name in ("toy cars", "emoji", "cars")},
            tells="batches of 128 images for 50 meta-classes, 5 members, 3 seeds (3 hours)",
        ),
        Effect(
            "Using images as proxies helps",
            {
                "toy cars": ("edms_variants", "EDMS (RW, P) minus EDMS (RW)"),
                "emoji": ("emoji_edms", "EDMS (RW, P) minus EDMS (RW)"),
                "cars": ("cars_edms", "EDMS (RW, P) minus EDMS (RW)"),
            },
            Reported(4.2, "CUB, Table 2", images=OF_EDMS),
            {name: Deviation(PARTNERS, EITHER) for name in ("toy cars", "emoji", "cars")},
            tells="batches of 128 images for 50 meta-classes, 5 members, 3 seeds (3 hours)",
            note="The next claim compares image proxies with a row that has positive images in each batch.",
        ),
        Effect(
            "Walks and image proxies beat N-pair loss",
            {
                "toy cars": ("edms_variants", "EDMS (RW, P) minus EDMS (w/o)"),
                "emoji": ("emoji_edms", f"EDMS (RW, P) minus {N_PAIR}"),
                "cars": ("cars_edms", f"EDMS (RW, P) minus {N_PAIR}"),
            },
            Reported(1.6, "CUB, Table 2", images=OF_EDMS),
            {"toy cars": Deviation(PARTNERS, PRESENCE)},
            Decided("3", (decisive.IMAGES,), (decisive.PLAIN,), seeds=(1, 2, 3)),
            "batches of 128 images for 50 meta-classes, 5 members, 3 seeds (3 hours)",
            "On emoji and cars, N-pair loss has P×K batches, so that each anchor has positive images.",
        ),
        Effect(
            "Hard proxies help",
            {
                "toy cars": ("edms_variants", f"{FULL} minus EDMS (RW, P)"),
                "emoji": ("emoji_edms", f"{FULL} minus EDMS (RW, P)"),
                "cars": ("cars_edms", f"{FULL} minus EDMS (RW, P)"),
            },
            Reported(5.8, "CUB, Table 2", images=OF_EDMS),
            {name: Deviation(HARD) for name in ("toy cars", "emoji", "cars")},
            Decided("3", tuple(decisive.DOSES), (decisive.IMAGES,), seeds=(1, 2, 3), is_main=True),
            "30, 100, 300 and 1,000 steps of equation (7), chosen by validation, 5 members, 3 seeds (7 hours)",
        ),
        Effect(
            "The contextual loss beats the intrinsic loss",
            {
                "toy cars": ("edms_variants", f"{FULL} minus EDMS (RW-int, P*)"),
                "cars": ("cars_edms", f"{FULL} minus EDMS (RW-int, P*)"),
            },
            Reported(5.0, "CUB, Table 2", images=OF_EDMS),
            {name: Deviation(HARD) for name in ("toy cars", "cars")},
            tells="the same as for hard proxies, with the intrinsic loss (2 hours more)",
        ),
        Effect(
            "50 meta-classes beat a larger number",
            {
                "toy cars": ("edms_variants", f"{FULL} minus {FULL}, K = 100"),
                "emoji": ("emoji_edms", f"{N_PAIR} minus {TWO}"),
                "cars": ("cars_edms", f"{N_PAIR} minus {N_PAIR}, 78 meta-classes"),
            },
            deviations={name: Deviation(FEW) for name in ("toy cars", "emoji", "cars")},
            tells="5 and 25 members with 39 and 78 meta-classes on cars (8 hours)",
            note="The paper has a curve (Figure 4).",
        ),
    ],
    "Ranked List Loss": [
        Effect(
            "Ranked list loss beats N-pair loss",
            {
                "toy cars": ("ranked_list_losses", f"{RANKED} N-pair"),
                "emoji": ("emoji_losses", "ranked list minus N-pair"),
                "omniglot": ("omniglot", "H minus N-pair"),
                "cars": ("cars_main", "H minus N-pair"),
            },
            Reported(2.6, "Cars196, Table III, and N-pair loss of three other papers", OTHERS, OF_RLL, COPIED_N_PAIR),
            {name: Deviation(SOFTMAX) for name in SETS},
            Decided("5", (decisive.RANKED,), (decisive.N_PAIR_MC,)),
            "the paper's N-pair loss itself, 64 dimensions, 5 seeds (4 hours)",
        ),
        Effect(
            "Ranked list loss beats triplet loss",
            {
                "toy cars": ("ranked_list_losses", f"{RANKED} triplet, semi-hard"),
                "emoji": ("emoji_losses", "ranked list minus triplet, semi-hard"),
                "omniglot": ("omniglot", "H minus triplet, semi-hard"),
                "cars": ("cars_losses", "ranked list minus triplet, semi-hard"),
            },
            tells="both losses with 3,200 steps on cars, 5 seeds (4 hours)",
            note="Table III reports +22.2 on Cars196, over a copied number (51.5), which is not an effect.",
        ),
        Effect(
            "Three feature levels beat one",
            {
                "toy cars": ("ranked_list", "L, M, H minus H"),
                "emoji": ("emoji_ranked_list", "L, M, H minus H"),
                "omniglot": ("omniglot", "L, M, H minus H"),
                "cars": ("cars_main", "L, M, H minus H"),
            },
            Reported(3.8, "SOP, Table VI"),
            decided=Decided("1", (decisive.THREE,), (decisive.ONE,)),
            tells="all rows with 384 dimensions, 5 seeds (4 hours)",
            note="Three levels have three times the dimensions, as in the paper, and on cars six times the trainable "
            "parameters. Another claim below compares them with three heads of one depth and as many parameters.",
        ),
        Effect(
            "Three feature levels beat two (L and H)",
            {
                "toy cars": ("ranked_list", "L, M, H minus L, H"),
                "emoji": ("emoji_ranked_list", "L, M, H minus L, H"),
                "cars": ("cars_ranked_list", "L, M, H minus L, H"),
            },
            Reported(0.2, "SOP, Table VI"),
            tells=MORE_CLASSES,
        ),
        Effect(
            "Three feature levels beat three heads of one depth",
            {"emoji": ("advice_on_emoji", f"{decisive.THREE} minus {decisive.HEADS}")},
            Reported(3.8, "SOP, Table VI, over one level"),
            decided=Decided("1", (decisive.THREE,), (decisive.HEADS,), is_main=True),
            tells="three heads of one depth with as many trainable parameters as three levels, 5 seeds (4 hours)",
            note="This claim is ours. The paper compares three levels with one level only. Its effect became the "
            "effect of interest before the runs.",
        ),
        Effect(
            "A margin between classes helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus m = 0.0"),
                "emoji": ("emoji_ranked_list", "H minus H, no margin"),
                "cars": ("cars_ranked_list", "H minus H, no margin"),
            },
            Reported(3.7, "SOP, Table XI"),
            decided=Decided("5", (decisive.RANKED,), (decisive.NO_MARGIN,)),
            tells="the row without a margin with its own learning rate, 5 seeds (4 hours)",
            note="On cars, the row without a margin has the learning rate that validation chose for the full loss.",
        ),
        Effect(
            "A class diameter above 0 helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus m = 1.2"),
                "emoji": ("emoji_ranked_list", "H minus H, no diameter"),
                "cars": ("cars_ranked_list", "H minus H, no diameter"),
            },
            Reported(0.7, "SOP, Table XI"),
            tells=MORE_CLASSES,
        ),
        Effect(
            "Weighting the negatives helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus T_n = 0"),
                "emoji": ("emoji_ranked_list", "H minus H, negatives weighted equally"),
                "cars": ("cars_ranked_list", "H minus H, negatives weighted equally"),
            },
            Reported(1.0, "SOP, Table IX"),
            tells=MORE_CLASSES,
        ),
        Effect(
            "Ranked list loss equals tuned N-pair loss",
            {
                "toy cars": ("ranked_list_losses", f"{RANKED} N-pair"),
                "emoji": ("emoji_losses", "ranked list minus N-pair"),
                "omniglot": ("omniglot", "H minus N-pair"),
                "cars": ("cars_main", "H minus N-pair"),
            },
            decided=Decided("5", (decisive.RANKED,), (decisive.TUNED,), is_main=True),
            tells="64 dimensions, 3,200 steps, 5 seeds (4 hours)",
            note="This claim is ours: equal means that the 90% confidence interval is within 2 points of 0. Our N-pair "
            "loss is a softmax loss over all pairs with a temperature.",
            is_equality=True,
        ),
    ],
    "Lifted Structure": [
        Effect(
            "Hard negatives beat random negatives",
            {
                "toy cars": ("lifted", "lifted minus lifted, random negatives"),
                "emoji": ("emoji_lifted", "hard neighbors minus random negatives"),
                "cars": ("cars_lifted", f"{PLAIN} minus random negatives"),
            },
            decided=Decided("8", (decisive.NEIGHBORS,), (decisive.NEGATIVES,), is_main=True),
            tells="6,400 steps of 64 images, each row with its own learning rate, 5 seeds (16 hours)",
            note="The paper prints no number. It trains on 2,560,000 images.",
        ),
        Effect(
            "The smooth bound beats the hardest negative only",
            {
                "toy cars": ("lifted", "lifted minus lifted, the hardest negative only"),
                "cars": ("cars_lifted", f"{PLAIN} minus {PLAIN}, the hardest negative only"),
            },
            tells="a learning rate below 3e-5 for the hardest negative only (2 hours)",
            note="The paper prints no number. On cars, training with the hardest negative only collapses, so the best "
            "model is the initial one.",
        ),
    ],
    "Our advice": [
        Effect(
            "Proxies need more visits per class than pairs",
            {},
            decided=Decided(
                "6",
                ("Proxy-NCA, 78 classes, 3,200 steps",),
                ("N-pair, 78 classes, 3,200 steps",),
                ("Proxy-NCA, 78 classes, 800 steps", "N-pair, 78 classes, 800 steps"),
                is_main=True,
            ),
            tells="800 and 3,200 steps with 20 and 78 classes, 5 seeds (8 hours)",
            note="The effect is how much more Proxy-NCA gains from four times the steps than N-pair loss.",
        ),
        Effect(
            "Training improves over linear discriminants of frozen features",
            {"emoji": ("advice_on_emoji", f"{decisive.THREE} minus {decisive.FROZEN_LEVELS}")},
            decided=Decided("7", (decisive.TRAINED_LEVELS,), (decisive.FROZEN, decisive.FROZEN_LEVELS), is_main=True),
            tells="three levels from discriminants, 3,200 steps, 5 seeds (2 hours)",
        ),
    ],
}
