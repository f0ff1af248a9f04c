"""Threshold on the similarity from which an index accepts an image, and a check that it suits the images."""

import logging
import math
from pathlib import Path

import numpy as np

from tfdml.files.checked import damaged
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import compared_vectors
from tfdml.run.experiment.threshold import ENTRIES, Threshold, check_queries
from tfdml.serving.exported_model import model_hash, saved_model_folder
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import similarity_of
from tfdml.serving.model_card import METADATA, read_card, write_card

NONE = "none"
# A model's card omits where a threshold was fitted, and on which file.
OF_THIS_MACHINE = ("embeddings", "run_dir", "sha256")
# Values of a fitted threshold that searches use.
NUMBERS = ("threshold", "false_accept_rate", "precision")


def threshold_for(searcher, setting="", queries="image"):
    """Returns the `Threshold` of a setting, or the one that was fitted for the model of an index, if there is one.

    The setting is a number (possibly as a string), `none`, which accepts everything, or empty for the fitted threshold.
    `queries` is the kind of queries, `image` or `text`.
    """
    if setting != "":
        return Threshold(None if setting == NONE else _number(setting, searcher.manifest["metric"]))
    return _fitted(searcher, _card_of(searcher), queries)


def _card_of(searcher):
    return {} if searcher.model_folder is None else read_card(searcher.model_folder)


def _fitted(searcher, card, queries):
    """Returns the `Threshold` in the card of an index's model. Without one, everything is accepted."""
    fitted, manifest = card.get(ENTRIES[queries]), searcher.manifest
    if fitted is None:
        return Threshold()
    file = Path(searcher.model_folder, METADATA)
    advice = "Pass a threshold, or fit it again with python -m tfdml.threshold."
    numbers = [fitted.get(name) for name in NUMBERS] if isinstance(fitted, dict) else [None]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise damaged(file, "its threshold is not a number", advice)
    check_queries(fitted, queries, file)
    if card.get("sha256") != searcher.model_digest:
        raise ValueError(f"The threshold in {file} was fitted for another model than the one next to it. {advice}")
    if fitted.get("distance") != manifest["metric"]:
        raise ValueError(
            f"The threshold in {file} is for the distance {fitted.get('distance')!r}, but the index uses "
            f"{manifest['metric']!r}. {advice}"
        )
    return Threshold.of(fitted)


class CurrentThreshold:
    """Function that returns the `Threshold` of a searcher's index and follows changes of its model's card.

    If the card is gone, is damaged or belongs to another model, the threshold stays the same, because without one,
    everything would be accepted. `setting` and `queries` are the ones of `threshold_for`.
    """

    def __init__(self, setting="", queries="image"):
        self._setting, self._queries, self._last = setting, queries, None

    def __call__(self, searcher):
        # Several threads may call this. Each sees a complete tuple.
        last, state = self._last, _state_of_card(searcher.model_folder) if self._setting == "" else None
        if last is None or last[:2] != (searcher, state):
            old = last[2] if last and last[0].manifest["model"] == searcher.manifest["model"] else None
            self._last = last = searcher, state, self._read(searcher, old)
        return last[2]

    def _read(self, searcher, old):
        """Returns the `Threshold` that the card has now. If it has none for this model, returns `old`, if it is set."""
        if self._setting != "":
            return threshold_for(searcher, self._setting, self._queries)
        try:
            card = _card_of(searcher)
            is_other = searcher.model_folder is not None and card.get("sha256") != searcher.model_digest
            if old is not None and is_other:
                return old
            return _fitted(searcher, card, self._queries)
        except (OSError, ValueError) as error:
            if old is None:
                raise
            logging.getLogger(__name__).warning("%s The service continues with the threshold that it has.", error)
            return old


def _state_of_card(folder):
    """Returns a value that changes when the card in a model's folder changes, or `None` without a card."""
    try:
        about = Path(folder or "", METADATA).stat()
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def put_threshold(path, threshold, embeddings=""):
    """Writes a `Threshold` of `tfdml.threshold` into the card of an exported model, or of an index's model.

    `embeddings` is the folder of `python -m tfdml.embed` that the threshold was fitted on, and records the model. If it
    is empty, the threshold was fitted on a run, and the model must be an export of that run's model.
    """
    folder, fitted = model_folder_of(path), threshold.fitted
    card, digest = read_card(folder), model_hash(folder)
    if embeddings:
        check_embeddings(embeddings, folder)
    if card.get("sha256") != digest:
        raise ValueError(
            f"{folder} has no {METADATA} that belongs to its model. Export the model again with python -m tfdml.export."
        )
    if not embeddings and card.get("run_sha256") != fitted["sha256"]:
        raise ValueError(
            f"The model in {folder} is not known to be an export of the {fitted['model']} model of "
            f"{fitted['run_dir']}. It is from another run or an earlier training, or it was exported with "
            "--dims. Export the run again, or embed images with this model and use --embeddings."
        )
    if fitted["distance"] != card["embedding"]["metric"]:
        raise ValueError(
            f"The threshold is for the distance {fitted['distance']!r}, but the model uses "
            f"{card['embedding']['metric']!r}. Pass --protocol=\"self_retrieval(distance='...')\" with the "
            "model's distance."
        )
    published = {name: value for name, value in fitted.items() if name not in OF_THIS_MACHINE}
    write_card(folder, {**card, ENTRIES[threshold.queries]: published})


def check_embeddings(embeddings, folder):
    """Raises a ValueError if the embeddings in a folder of `tfdml.embed` are not by the model in another folder."""
    if EmbeddingShards(embeddings).model != model_hash(folder):
        raise ValueError(
            f"The embeddings in {embeddings} were not computed by the model in {folder}, so their threshold is "
            f"not valid for it. Embed the images with --model={folder}."
        )


def model_folder_of(path):
    """Returns the folder of an exported model, or of an index's model."""
    index = IndexFolder(path)
    return index.model if index.exists() else saved_model_folder(path)


def _number(value, metric):
    try:
        value = float(value)
    except ValueError:
        raise ValueError(f"--threshold must be a number or none. Received: --threshold={value}.") from None
    most = {"cosine": 1, "euclidean": 0}[metric]
    if not value <= most:
        kind = {"cosine": "a cosine", "euclidean": "minus a distance"}[metric]
        raise ValueError(
            f"--threshold must be at most {most}, because the similarity is {kind}. Received: --threshold={value:g}."
        )
    return value


# Maximum number of images that are compared with each other, and of shard files that are read for them.
IMAGES, FILES = 1000, 5
# Factor by which false accept rates may differ, and number of accepted pairs that is needed to detect a difference.
FACTOR, PAIRS = 3, 30


def difference(searcher, threshold):
    """Returns a warning if a fitted threshold accepts far more, or far fewer, wrong pairs than when it was fitted.

    Up to 1,000 labeled images in the index are compared with each other. The rate of accepted pairs with different
    labels may be up to three times as high or low as the rate at which the threshold was fitted. Differences of fewer
    than 30 pairs are ignored. Without a difference, and for a threshold of texts or one that was not fitted, it returns
    `None`.
    """
    store, metric = searcher.store, searcher.manifest["metric"]
    of_images = threshold.fitted is not None and threshold.queries == "image"
    if not of_images or not isinstance(store, FolderStore) or not store.embeddings.exists():
        return None
    vectors, labels = _sample(store)
    vectors = compared_vectors(vectors, metric)
    scores = products = vectors @ vectors.T
    if metric == "euclidean":
        squares = np.diag(products)
        scores = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0))
    different = np.triu(labels[:, None] != labels, 1)
    pairs, rate = int(different.sum()), threshold.fitted["false_accept_rate"]
    accepted = int(np.sum(similarity_of(scores, metric)[different] >= threshold.value))
    expected = rate * pairs
    if max(accepted, expected) < PAIRS or expected / FACTOR <= accepted <= expected * FACTOR:
        return None
    return (
        "The images in the index differ from the images that the threshold was fitted on: it accepts a fraction "
        f"of {accepted / pairs:.2g} of {pairs:,} pairs with different labels, instead of {rate:.2g}. Fit it on "
        "images like these."
    )


def _sample(store):
    """Returns embeddings `[N, D]` and labels `[N]` of a sample of labeled images in the index."""
    vectors, labels, deleted = [], [], store.rows.deleted_ids
    for _, block in zip(range(FILES), EmbeddingShards(store.embeddings).blocks(), strict=False):
        rows = enumerate(zip(block.ids.tolist(), block.labels, strict=True))
        labeled = [place for place, (id, label) in rows if label is not None and id not in deleted]
        vectors.append(block.embeddings[labeled])
        labels += [block.labels[place] for place in labeled]
    drawn = np.random.default_rng(0).permutation(len(labels))[:IMAGES]
    numbers = np.unique(np.array(labels, object).astype(str), return_inverse=True)[1]
    return np.concatenate(vectors)[drawn], numbers[drawn]
