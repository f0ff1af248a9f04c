"""Google Landmarks Dataset v2."""

import logging

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.published import Published
from pipelines.labels import read_table
from tfdml.registry import register

TRAIN, INDEX, QUERIES = "train_clean.csv", "index_image_to_landmark.csv", "retrieval_solution_v2.1.csv"
# The authors' script puts the tables next to the images of each part.
TABLES = ((TRAIN, INDEX, QUERIES), (f"train/{TRAIN}", f"index/{INDEX}", f"test/{QUERIES}"))
TABLES += (tuple(f"metadata/{name}" for name in TABLES[0]),)
LANDMARKS = Published(
    name="google_landmarks",
    page="https://github.com/cvdfoundation/google-landmark",
    folder="google-landmark",
    layouts=tuple((*tables, "train", "index", "test") for tables in TABLES),
    archives={},
)
COLUMNS = {TRAIN: ("landmark_id", "images"), INDEX: ("id", "landmark_id"), QUERIES: ("id", "images", "Usage")}
METRICS = ("map", "recall_at_1", "recall_at_10", "recall_at_100")


@register("dataset", "google_landmarks")
def google_landmarks(data_dir: DataDir) -> Dataset:
    """Loads Google Landmarks v2 with its clean training set, its queries and the index that they are searched in.

    Queries without an image in the index are skipped. Landmarks of the index have other labels than those for
    training, although some landmarks are in both.

    Args:
        data_dir: Folder with the images in `train`, `index` and `test`, and with `train_clean.csv`,
            `index_image_to_landmark.csv` and `retrieval_solution_v2.1.csv` in the same folder, in `metadata` or next to
            the images of each part. Or the folder that contains it as `google-landmark`.
    """
    folder, (*tables, _, _, _) = LANDMARKS.find(data_dir)
    table, *of_test = (folder / path for path in tables)
    of_landmarks = [(_number(table, row, line), row["images"].split()) for row, line in _rows(table)]
    labels = np.repeat([number for number, _ in of_landmarks], [len(images) for _, images in of_landmarks])
    names = [image for _, images in of_landmarks for image in images]
    train = Split(_paths(folder / "train", names), labels.astype(np.int64))
    LANDMARKS.check_counts("train", train, images=1580470, classes=81313)
    test = _test(folder, *of_test, first=int(labels.max()) + 1)
    return Dataset("google_landmarks", train, test, protocol=f"query_gallery(metrics={METRICS})")


def _test(folder, of_index, of_queries, first):
    """Returns the test split: the queries, followed by the index."""
    index = {row["id"]: first + _number(of_index, row, line) for row, line in _rows(of_index)}
    sizes = dict(zip(*np.unique(list(index.values()), return_counts=True), strict=True))
    queries, other = {}, 0
    for row, line in _rows(of_queries):
        images = row["images"].split()
        if row["Usage"] == "Ignored" or not images:
            continue
        unknown = [image for image in images if image not in index]
        if unknown:
            raise ValueError(
                f"{of_queries}, line {line}: the image {unknown[0]!r} is not in {INDEX}. Download both again."
            )
        landmarks = {index[image] for image in images}
        queries[row["id"]] = min(landmarks)
        other += len(landmarks) > 1 or len(images) != sizes[min(landmarks)]
    if other:
        logging.getLogger(__name__).warning(
            "google_landmarks: the solution of %d of %d queries is not exactly the images of one landmark. For these "
            "queries, all images of one of their landmarks count as correct.",
            other,
            len(queries),
        )
    paths = [*_paths(folder / "test", queries), *_paths(folder / "index", index)]
    labels = np.array([*queries.values(), *index.values()], np.int64)
    is_query = np.arange(len(labels)) < len(queries)
    return Split(np.array(paths, dtype=object), labels, is_query=is_query, is_gallery=~is_query)


def _rows(path):
    """Returns `[(row, line), ...]` of a table."""
    expected = COLUMNS[path.name]

    def check(header):
        if not set(expected) <= set(header):
            raise ValueError(
                f"{path} has the wrong columns. Expected {','.join(expected)}. Received: {header}. Download it again."
            )

    _, rows = read_table(path, check)
    if not rows:
        raise ValueError(f"{path} is empty. Download it again.")
    return rows


def _number(path, row, line):
    text = row["landmark_id"]
    if not (text.isdecimal() and len(text) < 18):
        raise ValueError(f"{path}, line {line}: landmark_id must be a number. Received: {text!r}.")
    return int(text)


def _paths(folder, names):
    return np.array([f"{folder}/{'/'.join(name[:3])}/{name}.jpg" for name in names], dtype=object)
