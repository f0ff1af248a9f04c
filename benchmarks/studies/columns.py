"""Columns that studies of several kinds share."""

import statistics

from tfdml.run.study.study import Number


def trainable_parameters(results, run_dirs):
    """Returns a column of the number of trainable parameters, which is empty for models without learners."""
    return Number(results[0]["cost"]["parameters"], ",.0f") if "cost" in results[0] else ""


def changed_clusters(results, run_dirs):
    """Returns a column of the share of images that changed their cluster at the last reclustering, in percent."""
    share = share_of_changed(results)
    return "" if share is None else Number(share, ".0f", scale=100)


def share_of_changed(results):
    """Returns the mean share of images that changed cluster at the last reclustering, or None without clusters."""
    clusters = [result.get("clusters") or {} for result in results]
    shares = [each["changed"] for each in clusters if each.get("changed") is not None]
    return statistics.mean(shares) if shares else None
