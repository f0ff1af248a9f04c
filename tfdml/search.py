"""Searches an index for images that are similar to others: `python -m tfdml.search --index=index query.jpg`.

python -m tfdml.search --index=index --picture=found.png query.jpg other.jpg
python -m tfdml.search --index=index --duplicates --threshold=0.98
python -m tfdml.search --index=index --label=new_photos --validation=photos_with_labels --precision=0.95
"""

import json
import math
from dataclasses import asdict
from pathlib import Path

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("index", "", "Folder of the index.")
flags.DEFINE_string("model", "", "Folder of the exported model; empty: the index's own copy.")
flags.DEFINE_integer("k", 5, "Number of neighbors that are shown, or that vote for a label.", lower_bound=1)
flags.DEFINE_enum("format", "table", ["table", "json"], "What is printed.")
flags.DEFINE_string("picture", "", "Image file to draw queries and neighbors in, such as found.png; empty: none.")
flags.DEFINE_bool(
    "duplicates", False, "List the pairs of images in the index with at least the similarity --threshold."
)
flags.DEFINE_float(
    "threshold",
    None,
    "Smallest similarity of neighbors, any by default, of --duplicates, 0.95 by default, and of --label.",
)
flags.DEFINE_string("label", "", "Folder of images to label by their nearest neighbors, where these are near enough.")
flags.DEFINE_string(
    "validation",
    "",
    "With --label, in place of --threshold: a folder with a folder of images for each label, some of them not in the "
    "index. They determine the threshold.",
)
flags.DEFINE_float("precision", 0.95, "Fraction of the labels that have to be right on --validation.", 0.0, 1.0)
tfdml_flags.define_debug()


def main(queries):
    given = flags.FLAGS
    if not given.index:
        raise ValueError("--index is missing: the folder of an index, see python -m tfdml.index.")
    if sum([bool(queries), given.duplicates, bool(given.label)]) != 1:
        raise ValueError("Expected one of: images to search for, --duplicates, and --label.")
    if given.label and (given.threshold is None) == (not given.validation):
        raise ValueError("--label needs --threshold, or --validation, a folder of images with labels.")
    if not queries:
        command.refuse_unused(["picture"], "--duplicates and --label print a list")
    command.check_file("picture")
    _check_picture(given.picture)
    command.import_package()
    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    from tfdml.serving import Searcher

    searcher = Searcher(given.index, given.model or None)
    _check_threshold(given.threshold, searcher.manifest["metric"])
    if queries:
        _search(searcher, queries, given)
    elif given.duplicates:
        _list_duplicates(searcher, given)
    else:
        _label(searcher, given)


def _check_picture(path):
    from PIL import Image

    if path and Path(path).suffix.lower() not in Image.registered_extensions():
        raise ValueError(f"--picture={path} does not end as an image file does, such as found.png.")


def _check_threshold(threshold, metric):
    most = {"cosine": 1, "euclidean": 0}[metric]
    if threshold is not None and not threshold <= most:
        kind = {"cosine": "a cosine", "euclidean": "minus a distance"}[metric]
        raise ValueError(f"--threshold={threshold:g}: the similarity is {kind}, which is at most {most}.")


def _search(searcher, queries, given):
    threshold, nearest = -math.inf if given.threshold is None else given.threshold, searcher.search(queries, given.k)
    found = [[each for each in some if each.similarity >= threshold] for some in nearest]
    if given.picture:
        from tfdml.serving.index.contact_sheet import draw

        draw(queries, found, given.picture)
    if given.format == "json":
        rows = zip(queries, found, strict=True)
        print(json.dumps([{"query": query, "neighbors": [asdict(each) for each in some]} for query, some in rows]))
        return
    for query, neighbors, all_of_them in zip(queries, found, nearest, strict=True):
        print(query)
        _print_rows([(f"{each.similarity:.4f}", each.label or "", each.path) for each in neighbors])
        if all_of_them and not neighbors:
            print(f"  none from --threshold={threshold:g} on; the nearest has {all_of_them[0].similarity:.4f}")


def _list_duplicates(searcher, given):
    from tfdml.serving.index.duplicates import duplicates

    pairs = duplicates(searcher, 0.95 if given.threshold is None else given.threshold)
    if given.format == "json":
        print(json.dumps([{"similarity": one.similarity, "paths": [one.path, other.path]} for one, other in pairs]))
        return
    _print_rows([(f"{one.similarity:.4f}", one.path, other.path) for one, other in pairs])
    print(f"{len(pairs):,} pairs")


def _label(searcher, given):
    from tfdml.serving.index.labeling import label_folder

    calibration, found = label_folder(
        searcher, given.label, given.k, given.threshold, validation=given.validation, precision=given.precision
    )
    if given.format == "json":
        about = None if calibration is None else asdict(calibration)
        print(json.dumps({"calibration": about, "images": [each.in_json() for each in found]}))
        return
    if calibration:
        if calibration.indexed:
            print(
                f"{calibration.indexed:,} of {calibration.images:,} validation images are in the index, and are not "
                "their own neighbors here. Better leave them out of the index: a threshold is for images that it lacks."
            )
        print(
            f"Threshold {calibration.threshold:.4f}: {calibration.precision:.1%} of the labels are right, and "
            f"{calibration.labeled:.1%} of {calibration.images:,} validation images have one."
        )
    _print_rows([(_shown(each.similarity), each.label or "unknown", each.path) for each in found])


def _shown(similarity):
    return "unreadable" if similarity is None else f"{similarity:.4f}"


def _print_rows(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    command.run(main, arguments="QUERY...")
