"""Thresholds of similarity: how they are fitted, stored with a run, read again and applied."""

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
    """Returns a similarity as people read it: a cosine, or a Euclidean distance, whose similarity is minus it."""
    return -similarity if distance == "euclidean" else similarity


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The similarity from which two images count as of one class, or an image gets a label.

    Args:
        value: the smallest similarity that is accepted, a cosine or minus a Euclidean distance. If `None`, all are.
        fitted: facts about its fit, such as what `fit_threshold` returns. If `None`, a user has set it.
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
        """Returns where a fitted threshold comes from and what it means in an index of so many images."""
        fit = self.fitted
        rule = f"a false accept rate of {fit['far']:g}" if "far" in fit else f"a precision of {fit['precision']:g}"
        # As far as is known.
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
    """Writes the `Threshold` that `fit` returns into the directory of a run."""
    write_record(Path(run_dir, FILE), threshold.fitted, indent=2)


def threshold_of(run_dir, which="best", distance=None):
    """Returns the `Threshold` of the `best` or `final` model of a run, and of a distance if one is given; or None."""
    file = Path(run_dir, FILE)
    if not file.is_file():
        return None
    entries = {"threshold": float, "distance": str, "model": str, "sha256": str, "run_dir": str}
    fitted = read_record(file, entries, "Fit the threshold again.")
    # Where the run is matters to nobody who has its export.
    del fitted["run_dir"]
    if fitted["model"] != which or distance not in (None, fitted["distance"]):
        return None
    if fitted.pop("sha256") != sha256_of(RunDirectory(run_dir), which):
        logging.getLogger(__name__).warning(
            "%s is of another %s model than the run has now, and is not used; fit it again.", file, which
        )
        return None
    return Threshold.of(fitted)
