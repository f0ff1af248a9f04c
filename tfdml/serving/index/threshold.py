"""The similarity from which an image of an index is accepted, and whether it fits the images."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdml.files.checked import damaged
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.exported_model import model_hash, saved_model_folder
from tfdml.serving.index.folder import IndexFolder, compared_vectors
from tfdml.serving.model_card import METADATA, read_card, write_card

NONE = "none"
# The card of a model leaves these out: where a threshold was fitted, and on which file.
OF_THIS_MACHINE = ("embeddings", "run_dir", "sha256")
# What a search uses of a fitted threshold.
NUMBERS = ("threshold", "false_accept_rate", "precision")


@dataclasses.dataclass(frozen=True)
class Threshold:
    """A smallest similarity that a user sets, or that was fitted.

    Args:
        value: the smallest similarity that is accepted; None: all are.
        fitted: what `python -m tfdml.threshold` says of it; None: it was not fitted.
    """

    value: float | None = None
    fitted: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, searcher, value=""):
        """Returns the threshold of a value, or the one that was fitted for the model of an index, if there is one.

        Args:
            searcher: `Searcher`.
            value: a number, also as text; `none`, which accepts everything; or empty for the fitted one.
        """
        if value != "":
            return cls(None if value == NONE else _number(value, searcher.manifest["metric"]))
        found = fitted_with(searcher)
        return cls(None if found is None else found["threshold"], found)

    def accepts(self, similarity: float) -> bool:
        """Whether a similarity is large enough."""
        return self.value is None or similarity >= self.value

    def in_words(self, count: int) -> str:
        """Returns where a fitted threshold comes from and what it means in an index of so many images."""
        found = self.fitted
        rule = (
            f"a false accept rate of {found['far']:g}" if "far" in found else f"a precision of {found['precision']:g}"
        )
        chance = found["false_accept_rate"] * count
        return (
            f"Threshold {self.value:.4f}: tfdml.threshold fitted it for {rule}{_where(found)}. By chance it accepts "
            f"about {chance:.2g} of {count:,} images of other classes. --threshold=none takes none."
        )


def fitted_with(searcher):
    """Returns what was fitted for the model of an index, from its card; None if nothing was.

    Args:
        searcher: `Searcher`.
    """
    folder, manifest = searcher.model_folder, searcher.manifest
    card = {} if folder is None else read_card(folder)
    found = card.get("threshold")
    if found is None:
        return None
    file, advice = Path(folder, METADATA), "Pass a threshold, or fit it again with python -m tfdml.threshold."
    if not (isinstance(found, dict) and all(_is_finite(found.get(name)) for name in NUMBERS)):
        raise damaged(file, "its threshold is no number", advice)
    if card.get("sha256") != manifest["model"]:
        raise ValueError(f"The threshold in {file} is of another model than the one beside it. {advice}")
    if found.get("distance") != manifest["metric"]:
        raise ValueError(
            f"The threshold in {file} is for the distance {found.get('distance')!r}, and the index compares by "
            f"{manifest['metric']!r}. {advice}"
        )
    return found


def put_threshold(path, found, embeddings=""):
    """Writes a fitted threshold into the card of an exported model, or of the model of an index.

    Args:
        path: folder of the model or of the index.
        found: what `python -m tfdml.threshold` prints.
        embeddings: the folder of `python -m tfdml.embed` that it was fitted on, which says of which model. If empty, it
            was fitted on a run, and the model must be an export of that run's model.
    """
    index = IndexFolder(path)
    folder = index.model if index.exists() else saved_model_folder(path)
    card, digest = read_card(folder), model_hash(folder)
    if embeddings and EmbeddingShards(embeddings).model != digest:
        raise ValueError(
            f"The embeddings in {embeddings} were not computed by the model in {folder}, so that their threshold says "
            f"nothing about it. Embed the images with --model={folder}."
        )
    if card.get("sha256") != digest:
        raise ValueError(f"{folder} has no {METADATA} of its model; export it with python -m tfdml.export.")
    if not embeddings and card.get("run_sha256") != found["sha256"]:
        raise ValueError(
            f"The model in {folder} is not known to be the {found['model']} model of {found['run_dir']}: it is of "
            "another run or training, or was exported with --dims. Export the run again, or embed images with this "
            "model and use --embeddings."
        )
    if found["distance"] != card["embedding"]["metric"]:
        raise ValueError(
            f"The threshold is for the distance {found['distance']!r}, and the model's is "
            f"{card['embedding']['metric']!r}. Give --protocol=\"self_retrieval(distance='...')\" with that one."
        )
    about = {name: value for name, value in found.items() if name not in OF_THIS_MACHINE}
    write_card(folder, {**card, "threshold": about})


def _number(value, metric):
    try:
        value = float(value)
    except ValueError:
        raise ValueError(f"--threshold={value}: expected a number, or none.") from None
    most = {"cosine": 1, "euclidean": 0}[metric]
    if not value <= most:
        kind = {"cosine": "a cosine", "euclidean": "minus a distance"}[metric]
        raise ValueError(f"--threshold={value:g}: the similarity is {kind}, which is at most {most}.")
    return value


def _is_finite(value):
    return isinstance(value, int | float) and math.isfinite(value)


def _where(found):
    """Returns on what a threshold was fitted, as far as is known."""
    data = f" of {found['dataset']}" if found.get("dataset") else ""
    split = f" ({found['split']})" if found.get("split") else ""
    classes = f" on {found['classes']:,} classes" if isinstance(found.get("classes"), int) else ""
    return f"{classes}{data}{split}"


# Images that are compared with each other, and files that are read for them.
IMAGES, FILES = 1000, 5
# By how much rates of false accepts may differ, and how many pairs have to show it.
FACTOR, PAIRS = 3, 30


def difference(searcher, threshold):
    """Returns a sentence if a fitted threshold accepts far more, or fewer, of the wrong pairs than where it was fitted.

    Up to 1,000 images of the index that have labels are compared with each other. Of the pairs with different labels it
    may accept a third to three times the rate at which it was fitted, and what fewer than 30 pairs show does not count.

    Args:
        searcher: `Searcher`.
        threshold: `Threshold`; one that is not fitted differs from nothing.

    Returns:
        The sentence, or None.
    """
    if threshold.fitted is None or searcher.embeddings is None or not searcher.embeddings.exists():
        return None
    vectors, labels = _sample(searcher)
    different = np.triu(labels[:, None] != labels, 1)
    pairs, rate = int(different.sum()), threshold.fitted["false_accept_rate"]
    accepted = int(np.sum(_similarities(vectors, searcher.manifest["metric"])[different] >= threshold.value))
    expected = rate * pairs
    if max(accepted, expected) < PAIRS or expected / FACTOR <= accepted <= expected * FACTOR:
        return None
    return (
        f"The images of the index differ from those that the threshold was fitted on: of {pairs:,} pairs with "
        f"different labels it accepts {accepted / pairs:.2g}, and there {rate:.2g}. Fit it on images like these."
    )


def _sample(searcher):
    """Returns embeddings `[N, D]` and labels `[N]` of images of the index that have one."""
    vectors, labels, deleted = [], [], searcher.rows.deleted_ids
    blocks = EmbeddingShards(searcher.embeddings).blocks()
    for _, block in zip(range(FILES), blocks, strict=False):
        known = [
            place
            for place, (id, label) in enumerate(zip(block.ids.tolist(), block.labels, strict=True))
            if label is not None and id not in deleted
        ]
        vectors.append(block.embeddings[known])
        labels += [block.labels[place] for place in known]
    drawn = np.random.default_rng(0).permutation(len(labels))[:IMAGES]
    numbers = np.unique(np.array(labels, object).astype(str), return_inverse=True)[1]
    return compared_vectors(np.concatenate(vectors)[drawn], searcher.manifest["metric"]), numbers[drawn]


def _similarities(vectors, metric):
    products = vectors @ vectors.T
    if metric == "cosine":
        return products
    squares = np.diag(products)
    return -np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0))
