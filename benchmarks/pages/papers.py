"""The effects that papers claim, and the differences between rows that would confirm them."""

from typing import NamedTuple

SETS = {"toy cars": "Toy cars", "emoji": "Emoji", "omniglot": "Omniglot", "cars": "Cars"}


class Effect(NamedTuple):
    """An effect that a paper claims.

    Args:
        text: The claim.
        shown: Dictionary from a dataset to a source and a text `A minus B`. The difference is above 0 if the claim
            holds.
        printed: Difference in Recall@1 that the paper reports, in percentage points, with its dataset and table. Empty
            if the paper reports no number.
    """

    text: str
    shown: dict
    printed: str = ""


LONG = ", four times the steps"
BY_IMAGES = f"K = 4, in proportion to images{LONG}"
FULL, N_PAIR = "EDMS (RW, P*)", "EDMS (w/o), P×K batches"
TWO = f"{N_PAIR}, 272 meta-classes"
FIRST = "α = 1.2, m = 0.4, T_n = 10"
RANKED = "ranked list, simpler minus"
PLAIN = "hard neighbors"
# If a dataset has runs of several lengths, the longest ones count.
PAPERS = {
    "Divide and Conquer": [
        Effect(
            "Divide and Conquer beats a single embedding",
            {
                "toy cars": ("divide_and_conquer", f"{BY_IMAGES} minus one embedding{LONG}"),
                "emoji": ("emoji_divide", f"K = 4{LONG} minus one embedding{LONG}"),
                "omniglot": ("omniglot", "K = 4 minus triplet, semi-hard"),
                "cars": ("cars_divide", f"{BY_IMAGES} minus one embedding{LONG}"),
            },
            printed="+5.0, Cars196, Table 2",
        ),
        Effect(
            "Clusters beat alternating on all data",
            {
                "toy cars": ("divide_and_conquer", f"K = 4{LONG} minus K = 4, turns on all data{LONG}"),
                "emoji": ("emoji_divide", f"K = 4{LONG} minus K = 4, turns on all data{LONG}"),
                "omniglot": ("omniglot", "K = 4 minus K = 4, turns on all data"),
                "cars": ("cars_divide", "K = 4 minus K = 4, turns on all data"),
            },
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
            printed="+2.7, SOP, Table 6",
        ),
        Effect(
            "Splitting the embedding helps",
            {
                "toy cars": ("divide_and_conquer", "K = 4 minus K = 4, embedding not split"),
                "emoji": ("emoji_divide", "K = 4 minus K = 4, embedding not split [5 seeds]"),
                "omniglot": ("omniglot", "K = 4 minus K = 4, embedding not split"),
                "cars": ("cars_divide", "K = 4 minus K = 4, embedding not split"),
            },
            printed="+0.9, SOP, Table 6",
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
            printed="+15.2, Cars196, Table 1",
        ),
        Effect(
            "The divergence loss helps",
            {
                "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus ABE-4 without divergence{LONG}"),
                "cars": ("cars_ensembles", "ABE-4 minus ABE-4 without divergence"),
            },
            printed="+15.5, Cars196, ABE-8, Table 2",
        ),
        Effect(
            "Attention beats heads (ABE-4 vs. 4 heads)",
            {
                "emoji": ("emoji_ensembles", f"ABE-4, λ = 1{LONG} minus 4-heads{LONG}"),
                "omniglot": ("omniglot", "ABE-4 minus 4-heads"),
                "cars": ("cars_main", "ABE-4 minus 4-heads"),
            },
            printed="+5.9, Cars196, Table 1",
        ),
        Effect(
            "Attention beats heads (ABE-8 vs. 8 heads)",
            {"cars": ("cars_learners", "ABE-8 minus 8-heads")},
            printed="+9.1, Cars196, Table 1",
        ),
        Effect(
            "Adding attention to heads helps",
            {
                "emoji": ("emoji_ensembles", f"4-heads+att{LONG} minus 4-heads{LONG}"),
                "omniglot": ("omniglot", "4-heads+att minus 4-heads"),
                "cars": ("cars_ensembles", "4-heads+att minus 4-heads"),
            },
            printed="+3.6, Cars196, 8 heads, supplement",
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
        ),
        Effect(
            "Random walks within a batch reduce Recall@1",
            {
                "toy cars": ("edms_variants", "EDMS (w/o) minus EDMS (RW)"),
                "emoji": ("emoji_edms", "EDMS (w/o) minus EDMS (RW)"),
                "cars": ("cars_edms", "EDMS (w/o) minus EDMS (RW)"),
            },
            printed="+2.6, CUB, Table 2",
        ),
        Effect(
            "Using images as proxies helps",
            {
                "toy cars": ("edms_variants", "EDMS (RW, P) minus EDMS (RW)"),
                "emoji": ("emoji_edms", "EDMS (RW, P) minus EDMS (RW)"),
                "cars": ("cars_edms", "EDMS (RW, P) minus EDMS (RW)"),
            },
            printed="+4.2, CUB, Table 2",
        ),
        Effect(
            "Hard proxies help",
            {
                "toy cars": ("edms_variants", f"{FULL} minus EDMS (RW, P)"),
                "emoji": ("emoji_edms", f"{FULL} minus EDMS (RW, P)"),
                "cars": ("cars_edms", f"{FULL} minus EDMS (RW, P)"),
            },
            printed="+5.8, CUB, Table 2",
        ),
        Effect(
            "The contextual loss beats the intrinsic loss",
            {
                "toy cars": ("edms_variants", f"{FULL} minus EDMS (RW-int, P*)"),
                "cars": ("cars_edms", f"{FULL} minus EDMS (RW-int, P*)"),
            },
            printed="+5.0, CUB, Table 2",
        ),
        Effect(
            "50 meta-classes beat a larger number",
            {
                "toy cars": ("edms_variants", f"{FULL} minus {FULL}, K = 100"),
                "emoji": ("emoji_edms", f"{N_PAIR} minus {TWO}"),
                "cars": ("cars_edms", f"{N_PAIR} minus {N_PAIR}, 78 meta-classes"),
            },
        ),
    ],
    "Ranked List Loss": [
        Effect(
            "Ranked list loss beats N-pair loss",
            {
                "toy cars": ("ranked_list_losses", f"{RANKED} N-pair"),
                "emoji": ("emoji_losses", "ranked list minus N-pair"),
                "cars": ("cars_losses", "ranked list minus N-pair"),
            },
            printed="+19.8, Cars196, Table III",
        ),
        Effect(
            "Ranked list loss beats triplet loss",
            {
                "toy cars": ("ranked_list_losses", f"{RANKED} triplet, semi-hard"),
                "emoji": ("emoji_losses", "ranked list minus triplet, semi-hard"),
                "omniglot": ("omniglot", "H minus triplet, semi-hard"),
                "cars": ("cars_losses", "ranked list minus triplet, semi-hard"),
            },
            printed="+22.2, Cars196, Table III",
        ),
        Effect(
            "Three feature levels beat one",
            {
                "toy cars": ("ranked_list", "L, M, H minus H"),
                "emoji": ("emoji_ranked_list", "L, M, H minus H"),
                "omniglot": ("omniglot", "L, M, H minus H"),
                "cars": ("cars_main", "L, M, H minus H"),
            },
            printed="+3.8, SOP, Table VI",
        ),
        Effect(
            "Three feature levels beat two (L and H)",
            {
                "toy cars": ("ranked_list", "L, M, H minus L, H"),
                "emoji": ("emoji_ranked_list", "L, M, H minus L, H"),
                "cars": ("cars_ranked_list", "L, M, H minus L, H"),
            },
            printed="+0.2, SOP, Table VI",
        ),
        Effect(
            "A margin between classes helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus m = 0.0"),
                "emoji": ("emoji_ranked_list", "H minus H, no margin"),
                "cars": ("cars_ranked_list", "H minus H, no margin"),
            },
            printed="+3.7, SOP, Table XI",
        ),
        Effect(
            "A class diameter above 0 helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus m = 1.2"),
                "emoji": ("emoji_ranked_list", "H minus H, no diameter"),
                "cars": ("cars_ranked_list", "H minus H, no diameter"),
            },
            printed="+0.7, SOP, Table XI",
        ),
        Effect(
            "Weighting the negatives helps",
            {
                "toy cars": ("ranked_list_boundaries", f"{FIRST} minus T_n = 0"),
                "emoji": ("emoji_ranked_list", "H minus H, negatives weighted equally"),
                "cars": ("cars_ranked_list", "H minus H, negatives weighted equally"),
            },
            printed="+1.0, SOP, Table IX",
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
        ),
        Effect(
            "The smooth bound beats the hardest negative only",
            {
                "toy cars": ("lifted", "lifted minus lifted, the hardest negative only"),
                "cars": ("cars_lifted", f"{PLAIN} minus {PLAIN}, the hardest negative only"),
            },
        ),
    ],
}
