"""Proposes images to label next on a page for the keyboard: `python -m tfdml.suggest --index=index`.

It chooses among the images of an index without a label. The page downloads a table with all labels, for
--dataset="csv(path='labels.csv', test_classes=0.3)", and for tfdml.index --images=labels.csv --add --update. The last
line is JSON.

python -m tfdml.suggest --index=photo_index --count=100 --out=suggestions
"""

import json
import os

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("index", "", "Folder of an index with labeled and unlabeled images, see python -m tfdml.index.")
flags.DEFINE_integer("count", 100, "Maximum number of images to propose.", lower_bound=1)
flags.DEFINE_string("out", "suggestions", "Folder for the page labels.html.")
flags.DEFINE_float(
    "decisions",
    0.0,
    "Preference for images near a decision between two labels, from 0 to 1. In our measurements, it saves no labels.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_float(
    "duplicates", 0.98, "Similarity from which images are duplicates, of which one is proposed.", -1.0, 1.0
)
flags.DEFINE_integer("seed", 0, "Random seed of the at most 5,000 images that are compared.", lower_bound=0)
tfdml_flags.define_debug()


def main():
    values = flags.FLAGS
    if not values.index:
        raise ValueError("--index is missing. Set it to the folder of an index, see python -m tfdml.index.")
    command.check_folder("out")
    command.import_package()
    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    from tfdml.reporting.labeling_page import write_labeling_page
    from tfdml.serving.index.samples import MOST_PROPOSED, pixels_of, proposals
    from tfdml.serving.index.searcher import Searcher

    options = {"decisions": values.decisions, "duplicates": values.duplicates, "seed": values.seed}
    paths, labels, asked = proposals(Searcher(values.index), values.count, **options)
    name = os.path.basename(os.path.normpath(values.index))
    title = f"{len(asked):,} images of {name} to label"
    page = write_labeling_page(values.out, title, paths, labels, asked, lambda row: pixels_of(paths[row]))
    count, ignored = labels.count(None), ""
    if len(asked) < min(values.count, count, MOST_PROPOSED):
        ignored = f" The others are duplicates of labeled or proposed images, see --duplicates={values.duplicates:g}."
    print(
        f"Proposed {len(asked):,} of {count:,} images without a label.{ignored} Open {page} in a browser to label them."
    )
    command.print_next("tfdml.index", "--images=labels.csv", f"--out={values.index}", "--add", "--update")
    listed = [{"path": paths[row], "proposed": proposed} for row, proposed, *_ in asked]
    print(json.dumps({"unlabeled": count, "labeled": len(labels) - count, "page": str(page), "images": listed}))


if __name__ == "__main__":
    command.run(main)
