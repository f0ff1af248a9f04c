"""Display names of variants and of columns. Records and `--row` keep the short names of the studies."""

import re

# Keys are parts of a variant's name between commas, or several of them.
VARIANTS = {
    # Divide and Conquer. Random clusters are the same as random groups of images.
    "one embedding": "single embedding",
    "K = 2": "Divide and Conquer (K = 2)",
    "K = 4": "Divide and Conquer (K = 4)",
    "K = 8": "Divide and Conquer (K = 8)",
    "random images": "random groups of images",
    "random clusters": "random groups of images",
    "random classes": "random groups of classes",
    "clusters of classes": "groups of consecutive classes",
    "clusters of neighboring subgroups": "groups of neighboring subgroups",
    "in proportion to images": "proportional batches",
    "turns on all data": "alternating learners without clusters",
    "every slice on every batch": "all learners on every batch",
    "every slice on every batch of 128": "all learners on every batch of 128",
    "every slice on every batch of 256": "all learners on every batch of 256",
    "at once": "all learners at once",
    "at once on all data": "all learners at once without clusters",
    "unit slices": "L2-normalized slices",
    # Attention-based Ensemble.
    "1-head": "1 head",
    "4-heads": "4 heads",
    "8-heads": "8 heads",
    "4-heads+att": "4 heads with attention",
    "4-tails": "4 tails",
    "ABE-4 without divergence": "ABE-4, no divergence loss",
    "given pairs": "explicit pairs",
    "given triplets": "explicit triplets",
    "masks from 0.95": "masks start at 0.95",
    "new layers ten times as fast": "10× learning rate for new layers",
    # Ranked List Loss.
    "L": "level L",
    "M": "level M",
    "H": "level H",
    "L, M": "levels L and M",
    "L, H": "levels L and H",
    "M, H": "levels M and H",
    "L, M, H": "levels L, M and H",
    "three levels": "3 levels",
    "from WCCN": "WCCN initialization",
    "negatives weighted equally": "equal weights for negatives",
    "simpler": "simplified",
    "α = 1.2, m = 0.4, T_n = 10": "baseline: α = 1.2, m = 0.4, T_n = 10",
    "T_n from 0 to 10": "T_n rises from 0 to 10",
    "T_n from 20 to 10": "T_n falls from 20 to 10",
    "T_n from 10 to 0": "T_n falls from 10 to 0",
    "T_n from 10 to 20": "T_n rises from 10 to 20",
    "six images a class": "6 images per class",
    "the printed objective": "objective as printed",
    # Lifted Structure.
    "lifted": "lifted structure",
    "hard neighbors": "hard negatives",
    "the hardest negative only": "hardest negative only",
    "unit length": "L2-normalized",
    "P×K": "P×K batches",
    "with a diameter": "positive margin",
    # EDMS, with the names of its Table 2.
    "EDMS (w/o)": "EDMS (w/o): N-pair loss",
    "EDMS (RW)": "EDMS (RW): random walks",
    "EDMS (RW, P)": "EDMS (RW, P): walks, image proxies",
    "EDMS (RW, P*)": "EDMS (RW, P*): walks, hard proxies",
    "EDMS (RW-int, P*)": "EDMS (RW-int, P*): intrinsic loss",
    "EDMS (P*)": "EDMS (P*): hard proxies, no walks",
    "K = 10": "10 meta-classes",
    "K = 100": "100 meta-classes",
    # Batches, images, networks and steps.
    "16 × 4 images of 64 px, 128 dimensions, 800 steps": "baseline: 16 × 4 images, 64 px, 128 dimensions, 800 steps",
    "8 × 4 images of 96 px, 128 dimensions, 1,600 steps": "baseline: 8 × 4 images, 96 px, 128 dimensions, 1,600 steps",
    "8 × 4 images": "batches of 8 × 4 images",
    "16 × 2 images": "batches of 16 × 2 images",
    "16 × 4 images": "batches of 16 × 4 images",
    "32 × 2 images": "batches of 32 × 2 images",
    "32 × 4 images": "batches of 32 × 4 images",
    "statistics of each batch": "batch norm with batch statistics",
    "generalized mean": "generalized-mean pooling",
    "96 px": "images of 96 px",
    "128 px": "images of 128 px",
    "at 96 px": "images of 96 px",
    "MobileNetV2 of full width": "MobileNetV2 of full width (1.0)",
    "the whole image": "whole images",
    "and flips": "flips",
    "crops of a fifth to all": "crops of 20% to 100%",
    "at the same rate": "baseline's learning rate",
    "four times the steps": "4× steps",
    "eight times the steps": "8× steps",
    # Fine-tuning.
    "0.0001": "learning rate 0.0001",
    "0.001": "learning rate 0.001",
    "the embedding alone": "embedding layer only",
    "random embedding": "random initial embedding",
}
COLUMNS = {
    "of the last model": "Recall@1, last model",
    "steps to the best": "Steps to the best model",
    "gain in the last quarter": "Gain in the last quarter",
    "a learner's Recall@1": "Recall@1 of one learner",
    "a level's Recall@1": "Recall@1 of one level",
    "correlation": "Correlation of learners",
    "a learner's steps": "Steps per learner",
    "cosine of self pairs": "Cosine of self pairs",
    "changed": "Images that changed cluster, %",
    "parameters": "Trainable parameters",
    "Recall@1 of a member": "Recall@1, one member",
    "of 2": "Recall@1, 2 members",
    "of 5": "Recall@1, 5 members",
    "of 10": "Recall@1, 10 members",
    "features": "Pretrained features",
    "linear on features": "Linear layer on features",
    "seconds": "Seconds per run",
}
# Longer keys come first, so that "L, M, H" is not read as three levels.
PART = re.compile(rf"(?:(?<=^)|(?<=, )|(?<=: ))(?:{'|'.join(map(re.escape, sorted(VARIANTS, key=len)[::-1]))})(?=,|$)")


def of_variant(name):
    """Returns the display name of a variant, such as `4 heads, 4× steps`.

    Args:
        name: of the row in its study, such as `4-heads, four times the steps`.
    """
    return PART.sub(lambda found: VARIANTS[found[0]], name)


def of_column(head):
    """Returns the display name of a column."""
    return COLUMNS.get(head, head)
