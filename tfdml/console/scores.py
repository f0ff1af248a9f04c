"""Names and values of metrics as people read them: Recall@1 in percent, and differences of it in points."""

import re

# Names of metrics as papers write them, and what they start with.
NAMES = {"r_precision": "R-precision", "map_at_r": "MAP@R", "map": "mAP", "mrr": "MRR", "ndcg": "nDCG"}
BEGINNINGS = {
    "text_to_image_": "text-to-image ",
    "image_to_text_": "image-to-text ",
    "recall_at_": "Recall@",
    "precision_at_": "Precision@",
    "cmc_at_": "CMC@",
}
CAPITALS = ("nmi", "ami", "ari", "f1")
# Models that a result measures before training: their keys in files, and how people read them.
BEFORE_TRAINING = {"features": "pretrained features", "untrained": "before training"}
# Metrics that are shares, which people read in percent; `_of_LEVEL` is added for a level of a class hierarchy.
SHARES = re.compile(
    r"(text_to_image_|image_to_text_)?((recall|precision|cmc|relevance)_at_(\d+|k)|(tar|dir)_at_far(_[\d.e-]+)?|r_precision|map|map_trapezoid|map_at_r"
    r"|mrr|ndcg|graded_map|hierarchical_ap|average_set_intersection|accuracy|standard_error|pair_accuracy"
    r"|pair_average_precision|equal_error_rate|f1|purity|neighbors_kept)(_of_.+)?"
)


def titled(name):
    """Returns the name of a metric as it is written in text, such as `Recall@1`."""
    if name in NAMES or name in CAPITALS:
        return NAMES.get(name, name.upper())
    for beginning, written in BEGINNINGS.items():
        name = name.replace(beginning, written)
    return name.replace("_", " ")


def is_share(name):
    """Whether a metric is a share, from 0 to 1, that is shown in percent."""
    # The names of some metrics include their arguments.
    return SHARES.fullmatch(name.partition("(")[0]) is not None


def score(name, value):
    """Returns the value of a metric, such as `72.1%` or, if it is not a share, `0.653`; `-` for None."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if is_share(name) else f"{value:.3f}"


def bare(name, value, sign=""):
    """Returns a value without its unit, such as `72.1`; with the `sign` "+" it always has one, as differences do."""
    return f"{100 * value:{sign}.1f}" if is_share(name) else f"{value:{sign}.3f}"


def difference(name, value, sign="+"):
    """Returns the difference of two values of a metric, such as `+4.4 points`."""
    return f"{bare(name, value, sign)} points" if is_share(name) else bare(name, value, sign)


def interval(name, ends, sign=""):
    """Returns a 95% confidence interval of a metric or, with the `sign` "+", of a difference, without its unit."""
    return " to ".join(bare(name, end, sign) for end in ends)
