"""The page of a report: one HTML file that shows a run, or compares several."""

from tfdml.reporting.page.about import about_run, reproduce, what_next
from tfdml.reporting.page.comparison_tables import compared_runs, differences_table, pairs_table, right_table
from tfdml.reporting.page.curves import curve_figures
from tfdml.reporting.page.document import document
from tfdml.reporting.page.elements import element, joined, pairs
from tfdml.reporting.page.gallery_elements import gallery, gallery_data, neighbors_of, queries_within
from tfdml.reporting.page.images import picture_figures
from tfdml.reporting.page.learner_tables import learners_tables
from tfdml.reporting.page.metric_tables import scores_table, titled
from tfdml.reporting.page.places import Places

__all__ = [
    "Places",
    "about_run",
    "compared_runs",
    "curve_figures",
    "differences_table",
    "document",
    "element",
    "gallery",
    "gallery_data",
    "joined",
    "learners_tables",
    "neighbors_of",
    "pairs",
    "pairs_table",
    "picture_figures",
    "queries_within",
    "reproduce",
    "right_table",
    "scores_table",
    "titled",
    "what_next",
]
