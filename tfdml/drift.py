"""Tests whether recent queries differ from the images that an index was validated on. The last line is JSON.

python -m tfdml.drift --index=photo_index --queries=recent_photos --reference=validation_photos
python -m tfdml.drift --index=photo_index --queries=recent_photos --out=drift.png
"""

import json
import os

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("index", "", "Folder or address of an index, see python -m tfdml.index.")
flags.DEFINE_string("model", "", "Folder of the exported model. If not set, the copy in the index is used.")
flags.DEFINE_string(
    "queries",
    "",
    "Recent queries: a folder, a pattern, a list or table of paths, or a folder written by tfdml.embed with the model "
    "of the index.",
)
flags.DEFINE_string(
    "reference",
    "",
    "Images like the queries that the system was validated on, in the same forms. If not set, the images in the index, "
    "which are often nearer to each other than queries are.",
)
flags.DEFINE_string(
    "threshold",
    "",
    "Similarity below which a query is unknown, or none. If not set, the threshold that tfdml.threshold has fitted for "
    "the model is used, if there is one.",
)
flags.DEFINE_string("out", "", "PNG file for a picture of both distributions, such as drift.png. If not set, none.")
flags.DEFINE_integer("most", 1000, "Maximum number of images of each kind to compare, drawn at random.", lower_bound=30)
flags.DEFINE_integer("seed", 0, "Random seed of the images, permutations and resamples.", lower_bound=0)
tfdml_flags.define_debug()


def main():
    values = flags.FLAGS
    for name, what in {"index": "the folder or address of an index", "queries": "the recent queries"}.items():
        if not values[name].value:
            raise ValueError(f"--{name} is missing. Set it to {what}.")
    if values.out and not values.out.endswith(".png"):
        raise ValueError(f"--out={values.out} must end in .png, for example drift.png.")
    command.check_file("out")
    command.import_package()
    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    from tfdml.reporting.drift_report import judged, sentences
    from tfdml.serving.index.samples import index_sample, nearest_similarities, sample_of
    from tfdml.serving.index.searcher import searcher_of
    from tfdml.serving.index.threshold import threshold_for

    searcher = searcher_of(values.index, values.model or None)
    threshold = threshold_for(searcher, values.threshold).value
    options = {"most": values.most, "seed": values.seed}
    queries = sample_of(searcher, values.queries, **options)
    if values.reference:
        reference = sample_of(searcher, values.reference, **options)
    else:
        reference = index_sample(searcher, **options)
    for sample in (queries, reference):
        if sample.bad:
            path, reason = min(sample.bad.items())
            total = len(sample.bad) + len(sample.paths)
            print(f"Skipped {len(sample.bad):,} of {total:,} images that cannot be read. The first is {path}: {reason}")
    nearest = [nearest_similarities(searcher, sample) for sample in (queries, reference)]
    metric = searcher.manifest["metric"]
    names = (
        "queries",
        f"reference: {os.path.basename(os.path.normpath(values.reference))}"
        if values.reference
        else "images in the index",
    )
    about = {"metric": metric, "threshold": threshold, "seed": values.seed, "picture": values.out}
    drift = judged((queries.compared(metric), reference.compared(metric)), nearest, names, **about)
    print("\n".join(sentences(drift)))
    found = {name: getattr(drift, name) for name in ("queries", "reference", "p_value", "distance", "differs")}
    print(json.dumps({**found, "similarity": drift.similarity, "unknown": drift.unknown}))


if __name__ == "__main__":
    command.run(main, reads_images=True)
