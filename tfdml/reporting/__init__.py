"""Pictures of a run."""

from tfdml.reporting.learners import draw_learners, draw_negative_distances
from tfdml.reporting.only_one_right import draw_only_one_right

__all__ = ["draw_learners", "draw_negative_distances", "draw_only_one_right"]
