"""Searches an index for similar images: `python -m tfdml.search --index=index query.jpg`.

python -m tfdml.search --index=index --picture=found.png query.jpg other.jpg
python -m tfdml.search --index=index --where="label in ('mug', 'cup') and price < 20" query.jpg
python -m tfdml.search --index=index --text="red mug"
python -m tfdml.search --index=index --box=40,20,260,180 shelf.jpg
python -m tfdml.search --index=index --duplicates --threshold=0.98
python -m tfdml.search --index=index --label=new_photos --validation=photos_with_labels --precision=0.95
python -m tfdml.search --index=index --label=new_photos --classes=mug,cup,plate
"""

import json
import textwrap
from dataclasses import asdict
from pathlib import Path

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("index", "", "Folder or address of an index, see python -m tfdml.index.")
flags.DEFINE_string("model", "", "Folder of the exported model. If not set, the copy in the index is used.")
tfdml_flags.define_query_model()
flags.DEFINE_integer("k", 5, "Number of neighbors to show, or that vote for a label.", lower_bound=1)
flags.DEFINE_enum("format", "table", ["table", "json"], "Output format.")
flags.DEFINE_string(
    "picture", "", "Image file that shows queries and neighbors, such as found.png. If not set, no picture is drawn."
)
flags.DEFINE_bool("duplicates", False, "List pairs of images in the index with a similarity of at least --threshold.")
flags.DEFINE_bool("groups", False, "With --duplicates, list groups of images instead of pairs.")
flags.DEFINE_string(
    "where", "", "Only find images with these attributes, such as price < 20. If not set, all images can be found."
)
flags.DEFINE_string(
    "threshold",
    "",
    "Minimum similarity of neighbors, labels and duplicates, or none for no minimum. If not set, the threshold that "
    "tfdml.threshold has fitted for the model is used, if there is one. The default of --duplicates is 0.95.",
)
flags.DEFINE_string(
    "text", "", "Text to search for, such as red mug, if the model has a text tower. With images, both are combined."
)
flags.DEFINE_float("text_weight", 0.5, "Weight of --text next to an image.", 0.0, 1.0)
flags.DEFINE_list(
    "box",
    [],
    "Left, top, right and bottom of the part of each query image to search for, such as 40,20,260,180 in pixels or "
    "0.1,0,0.5,1 as fractions of its width and height. If not set, the whole image.",
)
flags.DEFINE_bool("adaptive", False, "Cut each list of neighbors at the largest drop in similarity.")
flags.DEFINE_string(
    "label",
    "",
    "Images to label by their nearest neighbors: a folder, or a table with a column path and, for objects in photos, "
    "the columns x1,y1,x2,y2 of their boxes. Images below the threshold are labeled unknown.",
)
flags.DEFINE_list(
    "classes",
    [],
    "With --label, class names, if the model has a text tower. Each image gets the name with the most similar "
    "text. The index needs no labels.",
)
flags.DEFINE_string(
    "validation",
    "",
    "With --label and instead of --threshold, a folder with one subfolder of images per label; some labels should "
    "not be in the index. The threshold is fitted to these images.",
)
flags.DEFINE_float("precision", 0.95, "Fraction of the labels that must be right on --validation.", 0.0, 1.0)
tfdml_flags.define_debug()
# Minimum similarity of duplicates if --threshold is not set.
DUPLICATES = 0.95


def main(queries):
    values = flags.FLAGS
    if not values.index:
        raise ValueError("--index is missing. Set it to the folder or address of an index, see python -m tfdml.index.")
    if sum([bool(queries or values.text), values.duplicates, bool(values.label)]) != 1:
        raise ValueError("Set exactly one of: images or a --text to search for, --duplicates, and --label.")
    if values.threshold and values.validation:
        raise ValueError(
            "--threshold and --validation cannot both be set, because --validation determines a threshold."
        )
    if values.text:
        command.refuse_unused(["adaptive", "picture"], "--text is set")
    elif not queries:
        command.refuse_unused(["picture", "where", "adaptive", "box"], "--duplicates and --label only print a list")
    if not values.text or not queries:
        command.refuse_unused(["text_weight"], "it needs both --text and images")
    if values.text and not queries:
        command.refuse_unused(["box"], "a --text has no parts")
    if not values.label:
        command.refuse_unused(["classes", "validation", "precision"], "--label is not set")
    elif values.classes:
        command.refuse_unused(["k", "validation", "precision"], "--classes labels images without neighbors")
    elif not values.validation:
        command.refuse_unused(["precision"], "--validation is not set")
    if values.duplicates:
        command.refuse_unused(["query_model", "k"], "--duplicates compares the images in the index with each other")
    else:
        command.refuse_unused(["groups"], "--duplicates is not set")
    command.check_file("picture")
    command.import_package()
    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    from tfdml.serving.image_list import box_of_text
    from tfdml.serving.index.searcher import searcher_of

    _check_picture(values.picture)
    searcher = searcher_of(values.index, values.model or None, values.query_model or None)
    if queries or values.text:
        about = {"k": values.k, "where": values.where, "adaptive": values.adaptive, "picture": values.picture}
        about["box"] = box_of_text(",".join(values.box), "--box") if values.box else None
        about |= {"text": values.text, "text_weight": values.text_weight}
        print_neighbors(searcher, queries, values.threshold, values.format, **about)
    elif values.duplicates:
        print_duplicates(searcher, values.threshold, values.format, values.groups)
    else:
        about = {"validation": values.validation, "precision": values.precision, "classes": values.classes}
        print_labels(searcher, values.label, values.threshold, values.format, k=values.k, **about)


def _check_picture(path):
    """Raises a ValueError if the ending of a path, which may be empty, is not an image format."""
    from PIL import Image

    # Pillow can read some formats that it cannot write.
    if path and Image.registered_extensions().get(Path(path).suffix.lower()) not in Image.SAVE:
        raise ValueError(f"--picture={path} must end like an image file, for example found.png.")


def print_neighbors(
    searcher, queries, setting, form, *, k, where="", adaptive=False, picture="", box=None, text="", text_weight=0.5
):
    """Prints the neighbors of images, of a text or of both and, if `picture` is a path, draws them.

    If --threshold is set to `setting`, less similar neighbors are left out. A fitted threshold only marks them. Texts
    have their own, because their similarities have another scale, and images with a text have none. `form` is `table`
    or `json`. If `box` is not `None`, it is the part of each image to search for.
    """
    from tfdml.serving.image_list import with_box
    from tfdml.serving.index.contact_sheet import draw
    from tfdml.serving.index.searcher import adaptive_search
    from tfdml.serving.index.threshold import NONE

    both = bool(text and queries)
    threshold = _threshold(searcher, setting or (NONE if both else ""), form, "text" if text else "image")
    boxes = None if box is None else [box] * len(queries)
    if text:
        vectors = searcher.embed_query(queries or None, text, text_weight, boxes)
        nearest = searcher.search_vectors(vectors, k, where or None)
    else:
        find = (lambda *given: adaptive_search(searcher, *given)) if adaptive else searcher.search
        nearest = find(queries, k, where or None, boxes)
    if box is not None:
        queries = [with_box(query, box) for query in queries]
    queries = queries or [text]
    marked = threshold.fitted is not None
    shown = [[each for each in some if marked or threshold.accepts(each.similarity)] for some in nearest]
    if picture:
        draw(queries, shown, picture)
    if form == "json":
        about = {"threshold": dict(threshold.fitted)} if marked else {}
        rows = [
            {"query": query, "neighbors": [_in_json(each, threshold) for each in neighbors], **about}
            for query, neighbors in zip(queries, shown, strict=True)
        ]
        print(json.dumps(rows))
        return
    if where:
        how = "Each query is compared with all of them" if nearest.exact else "The search is approximate"
        print(f"{nearest.matching:,} of {len(searcher):,} images match the filter. {how}.")
    for query, neighbors, all_of_them in zip(queries, shown, nearest, strict=True):
        print(query)
        _print_rows([_row(each, threshold) for each in neighbors])
        if all_of_them and not neighbors:
            nearest_has = f"the nearest image has {all_of_them[0].similarity:.4f}"
            print(f"  no image with a similarity of at least --threshold={threshold.value:g}; {nearest_has}")


def _threshold(searcher, setting, form, queries="image"):
    """Returns the `Threshold` of a search and prints its origin if it was fitted."""
    from tfdml.serving.index.threshold import difference, threshold_for

    threshold = threshold_for(searcher, setting, queries)
    if threshold.fitted is not None and form != "json":
        print(threshold.in_words(len(searcher)))
    if warning := difference(searcher, threshold):
        logging.warning(warning)
    return threshold


def _in_json(neighbor, threshold):
    accepted = {} if threshold.fitted is None else {"accepted": threshold.accepts(neighbor.similarity)}
    box = {} if neighbor.box is None else {"file": neighbor.file, "box": neighbor.box}
    return {**asdict(neighbor), **box, **accepted}


def _row(neighbor, threshold):
    mark = [] if threshold.fitted is None else ["accepted" if threshold.accepts(neighbor.similarity) else "below"]
    return (f"{neighbor.similarity:.4f}", *mark, neighbor.label or "", neighbor.path)


def print_duplicates(searcher, setting, form, groups=False):
    """Prints the pairs of near-duplicates in an index, or the groups that they connect.

    Fitted thresholds are not used: they separate classes, and images of one class are not duplicates.
    """
    from tfdml.serving.index.labeling import duplicate_groups, duplicates
    from tfdml.serving.index.threshold import NONE, threshold_for

    threshold = DUPLICATES if setting in ("", NONE) else threshold_for(searcher, setting).value
    if groups:
        found = duplicate_groups(searcher, threshold)
        if form == "json":
            print(json.dumps([asdict(group) for group in found]))
            return
        for group in found:
            print(group.representative.path)
            _print_rows([(f"{each.similarity:.4f}", each.path) for each in group.others])
        print(f"{len(found):,} groups of {sum(1 + len(group.others) for group in found):,} images")
        return
    pairs = duplicates(searcher, threshold)
    if form == "json":
        print(json.dumps([{"similarity": one.similarity, "paths": [one.path, other.path]} for one, other in pairs]))
        return
    _print_rows([(f"{one.similarity:.4f}", one.path, other.path) for one, other in pairs])
    print(f"{len(pairs):,} pairs")


def print_labels(searcher, folder, setting, form, *, k, validation="", precision=0.95, classes=()):
    """Prints the labels of the images of a folder, by their nearest neighbors or by class names."""
    from tfdml.serving.image_list import ImageList
    from tfdml.serving.index.labeling import calibrated_on, label_by_texts, label_images
    from tfdml.serving.index.threshold import NONE

    if validation:
        threshold = calibrated_on(searcher, ImageList.of(validation), k, precision)
    else:
        threshold = _threshold(searcher, setting, form, "text" if classes else "image")
        if threshold.value is None and setting != NONE and not classes:
            raise ValueError(
                "--label needs a threshold. Set --threshold, set --validation to a folder of labeled images, or fit a "
                "threshold for the model with python -m tfdml.threshold."
            )
    images = ImageList.of(folder).paths
    if classes:
        labeled = label_by_texts(searcher, images, classes, threshold)
    else:
        labeled = label_images(searcher, images, k, threshold)
    if form == "json":
        about = {"calibration": threshold.fitted if validation else None}
        about |= {} if validation or threshold.fitted is None else {"threshold": threshold.fitted}
        print(json.dumps({**about, "images": [each.in_json() for each in labeled]}))
        return
    if validation:
        _print_calibration(threshold)
    similarities = ["unreadable" if each.similarity is None else f"{each.similarity:.4f}" for each in labeled]
    _print_rows(
        [
            (similarity, each.label or "unknown", each.path)
            for similarity, each in zip(similarities, labeled, strict=True)
        ]
    )


def _print_calibration(calibration):
    fit = calibration.fitted
    if fit["indexed"]:
        print(
            f"{fit['indexed']:,} of {fit['images']:,} validation images are in the index, and were not counted as "
            "their own neighbors. Use validation images that are not in the index, because the threshold is for new "
            "images."
        )
    print(
        f"Threshold {calibration.value:.4f}: {fit['labeled']:.1%} of {fit['images']:,} validation images get a label, "
        f"and {fit['precision']:.1%} of these labels are right."
    )


def _print_rows(rows):
    if rows:
        print(textwrap.indent(command.aligned(rows, left=range(len(rows[0]))), "  "))


if __name__ == "__main__":
    command.run(main, arguments="QUERY...", reads_images=True)
