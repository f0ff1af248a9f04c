"""Pictures of a run."""

from tfdml.reporting.attention import draw_attention
from tfdml.reporting.batch import draw_batch
from tfdml.reporting.learners import draw_learners, draw_negative_distances, draw_pair_cosines
from tfdml.reporting.only_one_right import draw_only_one_right

__all__ = [
    "draw_attention",
    "draw_batch",
    "draw_learners",
    "draw_negative_distances",
    "draw_only_one_right",
    "draw_pair_cosines",
]
