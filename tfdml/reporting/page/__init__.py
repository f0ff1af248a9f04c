"""The page of a report: one HTML file that shows a run, or compares several."""

from tfdml.reporting.page.about import about_run, reproduce
from tfdml.reporting.page.document import document
from tfdml.reporting.page.images import picture_figures
from tfdml.reporting.page.scores import scores_table

__all__ = ["about_run", "document", "picture_figures", "reproduce", "scores_table"]
