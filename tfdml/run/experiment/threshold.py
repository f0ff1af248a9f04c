"""Similarity thresholds: how they are fitted, stored with a run, read and applied."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml.evaluation.verification.thresholds import fit_threshold
from tfdml.files.checked import read_record, write_record
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory

FILE = "threshold.json"


def for_people(similarity, distance):
    """Returns a similarity for display: a cosine, or the Euclidean distance that is its negative."""
    return -similarity if distance == "euclidean" else similarity


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The similarity from which two images count as the same class, or an image receives a label.

    Args:
        value: minimum similarity to accept, a cosine or the negative of a Euclidean distance. If `None`, all are
            accepted.
        fitted: facts about the fit, such as the result of `fit_threshold`. If `None`, a user has set the threshold.
    """

    value: float | None = None
    fitted: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, fitted: Mapping[str, Any]) -> Self:
        return cls(fitted["threshold"], fitted)

    def accepts(self, similarity: float) -> bool:
        """Whether a similarity is large enough."""
        return self.value is None or similarity >= self.value

    def in_words(self, count: int) -> str:
        """Returns a sentence on the origin of a fitted threshold and what it means in an index with `count` images."""
        fit = self.fitted
        rule = f"a false accept rate of {fit['far']:g}" if "far" in fit else f"a precision of {fit['precision']:g}"
        # Some of these facts may be unknown.
        classes = f" on {fit['classes']:,} classes" if isinstance(fit.get("classes"), int) else ""
        data = f" of {fit['dataset']}" if fit.get("dataset") else ""
        split = f" ({fit['split']})" if fit.get("split") else ""
        chance = fit["false_accept_rate"] * count
        return (
            f"Using the threshold {self.value:.4f}, which tfdml.threshold fitted for {rule}{classes}{data}{split}. By "
            f"chance, it accepts about {chance:.2g} of {count:,} images of other classes. To use no threshold, set "
            "--threshold=none."
        )


def fit(labeled, rule, samples, seed):
    """Returns the `Threshold` of `LabeledEmbeddings` by `{"far": rate}` or `{"precision": share}`."""
    pairs = labeled.protocol.pairs(np.asanyarray(labeled.embeddings), labeled.rows)
    fitted = fit_threshold(pairs, **rule, samples=samples, seed=seed)
    classes = len(np.unique(labeled.rows.labels))
    facts = {**labeled.facts, "distance": labeled.protocol.distance, **rule, "classes": classes}
    return Threshold.of({**facts, **fitted})


def write_threshold(run_dir, threshold):
    """Writes the `Threshold` that `fit` returns to a run directory."""
    write_record(Path(run_dir, FILE), threshold.fitted, indent=2)


def threshold_of(run_dir, which="best", distance=None):
    """Returns the `Threshold` of the `best` or `final` model of a run, or None. `distance`, if set, must match."""
    file = Path(run_dir, FILE)
    if not file.is_file():
        return None
    entries = {"threshold": float, "distance": str, "model": str, "sha256": str, "run_dir": str}
    fitted = read_record(file, entries, "Fit the threshold again.")
    # The location of the run does not matter for its export.
    del fitted["run_dir"]
    if fitted["model"] != which or distance not in (None, fitted["distance"]):
        return None
    if fitted.pop("sha256") != sha256_of(RunDirectory(run_dir), which):
        logging.getLogger(__name__).warning(
            "%s belongs to a different %s model than the run has now, so it is not used. Fit it again.", file, which
        )
        return None
    return Threshold.of(fitted)
