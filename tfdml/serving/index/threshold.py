"""The similarity from which an image of an index is accepted, and whether it fits the images."""

import math
from pathlib import Path

import numpy as np

from tfdml.files.checked import damaged
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import compared_vectors
from tfdml.run.experiment.threshold import Threshold
from tfdml.serving.exported_model import model_hash, saved_model_folder
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import similarity_of
from tfdml.serving.model_card import METADATA, read_card, write_card

NONE = "none"
# The card of a model leaves these out: where a threshold was fitted, and on which file.
OF_THIS_MACHINE = ("embeddings", "run_dir", "sha256")
# What a search uses of a fitted threshold.
NUMBERS = ("threshold", "false_accept_rate", "precision")


def threshold_for(searcher, setting=""):
    """Returns the `Threshold` that is set, or the one that was fitted for the model of an index, if there is one.

    The setting is a number, also as text; `none`, which accepts everything; or empty for the fitted one.
    """
    if setting != "":
        return Threshold(None if setting == NONE else _number(setting, searcher.manifest["metric"]))
    folder, manifest = searcher.model_folder, searcher.manifest
    card = {} if folder is None else read_card(folder)
    fitted = card.get("threshold")
    if fitted is None:
        return Threshold()
    file, advice = Path(folder, METADATA), "Pass a threshold, or fit it again with python -m tfdml.threshold."
    numbers = [fitted.get(name) for name in NUMBERS] if isinstance(fitted, dict) else [None]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise damaged(file, "its threshold is no number", advice)
    if card.get("sha256") != manifest["model"]:
        raise ValueError(f"The threshold in {file} is of another model than the one beside it. {advice}")
    if fitted.get("distance") != manifest["metric"]:
        raise ValueError(
            f"The threshold in {file} is for the distance {fitted.get('distance')!r}, and the index compares by "
            f"{manifest['metric']!r}. {advice}"
        )
    return Threshold.of(fitted)


def put_threshold(path, threshold, embeddings=""):
    """Writes a `Threshold` of `tfdml.threshold` into the card of an exported model, or of the model of an index.

    `embeddings` is the folder of `python -m tfdml.embed` that it was fitted on, which says of which model. If empty, it
    was fitted on a run, and the model must be an export of the model of that run.
    """
    index, fitted = IndexFolder(path), threshold.fitted
    folder = index.model if index.exists() else saved_model_folder(path)
    card, digest = read_card(folder), model_hash(folder)
    if embeddings and EmbeddingShards(embeddings).model != digest:
        raise ValueError(
            f"The embeddings in {embeddings} were not computed by the model in {folder}, so that their threshold says "
            f"nothing about it. Embed the images with --model={folder}."
        )
    if card.get("sha256") != digest:
        raise ValueError(f"{folder} has no {METADATA} of its model; export it with python -m tfdml.export.")
    if not embeddings and card.get("run_sha256") != fitted["sha256"]:
        raise ValueError(
            f"The model in {folder} is not known to be the {fitted['model']} model of {fitted['run_dir']}: it is of "
            "another run or training, or was exported with --dims. Export the run again, or embed images with this "
            "model and use --embeddings."
        )
    if fitted["distance"] != card["embedding"]["metric"]:
        raise ValueError(
            f"The threshold is for the distance {fitted['distance']!r}, and the model's is "
            f"{card['embedding']['metric']!r}. Give --protocol=\"self_retrieval(distance='...')\" with that one."
        )
    published = {name: value for name, value in fitted.items() if name not in OF_THIS_MACHINE}
    write_card(folder, {**card, "threshold": published})


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


# Images that are compared with each other, and files that are read for them.
IMAGES, FILES = 1000, 5
# By how much rates of false accepts may differ, and how many pairs have to show it.
FACTOR, PAIRS = 3, 30


def difference(searcher, threshold):
    """Returns a sentence if a fitted threshold accepts far more, or fewer, of the wrong pairs than where it was fitted.

    Up to 1,000 images of the index that have labels are compared with each other. Of the pairs with different labels it
    may accept a third to three times the rate at which it was fitted, and what fewer than 30 pairs show does not count.
    Otherwise, and for a threshold that is not fitted, it returns `None`.
    """
    store, metric = searcher.store, searcher.manifest["metric"]
    if threshold.fitted is None or not isinstance(store, FolderStore) or not store.embeddings.exists():
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
        f"The images of the index differ from those that the threshold was fitted on: of {pairs:,} pairs with "
        f"different labels it accepts {accepted / pairs:.2g}, and there {rate:.2g}. Fit it on images like these."
    )


def _sample(store):
    """Returns embeddings `[N, D]` and labels `[N]` of images of the index that have one."""
    vectors, labels, deleted = [], [], store.rows.deleted_ids
    for _, block in zip(range(FILES), EmbeddingShards(store.embeddings).blocks(), strict=False):
        rows = enumerate(zip(block.ids.tolist(), block.labels, strict=True))
        labeled = [place for place, (id, label) in rows if label is not None and id not in deleted]
        vectors.append(block.embeddings[labeled])
        labels += [block.labels[place] for place in labeled]
    drawn = np.random.default_rng(0).permutation(len(labels))[:IMAGES]
    numbers = np.unique(np.array(labels, object).astype(str), return_inverse=True)[1]
    return np.concatenate(vectors)[drawn], numbers[drawn]
