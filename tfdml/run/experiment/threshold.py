"""Similarity thresholds: how they are fitted, stored with a run, read and applied."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml.evaluation.verification.text_pairs import TextPairs
from tfdml.evaluation.verification.thresholds import fit_threshold
from tfdml.files.checked import read_record, write_record
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.labeled_embeddings import LabeledTexts

# The file of a threshold in a run directory, and its entry in a model card, by what it compares with images.
# Similarities to a text have another scale than similarities to an image, so each kind of query has its own threshold.
ENTRIES = {"image": "threshold", "text": "text_threshold"}
QUERIES = tuple(ENTRIES)


def for_people(similarity, distance):
    """Returns a similarity for display: a cosine, or the Euclidean distance that is its negative."""
    return -similarity if distance == "euclidean" else similarity


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The similarity from which two images count as the same class, or an image receives a label or matches a text.

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

    @property
    def queries(self) -> str:
        """The kind of queries that a fitted threshold is for, `"image"` or `"text"`."""
        return (self.fitted or {}).get("queries", QUERIES[0])

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
        of_images = self.queries == "image"
        kind, others = ("", "of other classes") if of_images else ("text ", "that do not match")
        return (
            f"Using the {kind}threshold {self.value:.4f}, which tfdml.threshold fitted for {rule}{classes}{data}"
            f"{split}. By chance, it accepts about {chance:.2g} of {count:,} images {others}. To use no threshold, set "
            "--threshold=none."
        )


def fit(labeled, rule, samples, seed):
    """Returns the `Threshold` of `LabeledEmbeddings` or `LabeledTexts`.

    The rule is `{"far": rate}` or `{"precision": share}`.
    """
    if isinstance(labeled, LabeledTexts):
        pairs = TextPairs.of(labeled.images, labeled.texts, labeled.pairs, labeled.labels, seed)
        facts, classes = {"queries": "text", "distance": "cosine"}, len(pairs.classes)
    else:
        pairs = labeled.protocol.pairs(np.asanyarray(labeled.embeddings), labeled.rows)
        facts, classes = {"distance": labeled.protocol.distance}, len(np.unique(labeled.rows.labels))
    fitted = fit_threshold(pairs, **rule, samples=samples, seed=seed)
    return Threshold.of({**labeled.facts, **facts, **rule, "classes": classes, **fitted})


def write_threshold(run_dir, threshold):
    """Writes the `Threshold` that `fit` returns to a run directory."""
    write_record(_file(run_dir, threshold.queries), threshold.fitted, indent=2)


def _file(run_dir, queries):
    return Path(run_dir, f"{ENTRIES[queries]}.json")


def threshold_of(run_dir, which="best", distance=None, queries="image"):
    """Returns the `Threshold` of the `best` or `final` model of a run, or None. `distance`, if set, must match.

    `queries` is the kind of queries, `image` or `text`.
    """
    file = _file(run_dir, queries)
    if not file.is_file():
        return None
    entries = {"threshold": float, "distance": str, "model": str, "sha256": str, "run_dir": str}
    fitted = read_record(file, entries, "Fit the threshold again.")
    # The location of the run does not matter for its export.
    del fitted["run_dir"]
    check_queries(fitted, queries, file)
    if fitted["model"] != which or distance not in (None, fitted["distance"]):
        return None
    if fitted.pop("sha256") != sha256_of(RunDirectory(run_dir), which):
        logging.getLogger(__name__).warning(
            "%s belongs to a different %s model than the run has now, so it is not used. Fit it again.", file, which
        )
        return None
    return Threshold.of(fitted)


def check_queries(fitted, queries, file):
    """Raises a ValueError if facts about a fit in a file are about another kind of queries."""
    kind = fitted.get("queries", QUERIES[0])
    if kind != queries:
        raise ValueError(
            f"{file} has a threshold for {kind} queries instead of one for {queries} queries. Their similarities have "
            f"different scales. Fit it again with python -m tfdml.threshold --queries={queries}."
        )
