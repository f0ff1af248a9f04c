"""Fits a similarity threshold above which two images match, or an image and a text. The last line is JSON.

python -m tfdml.threshold --run_dir=runs/quickstart --far=1e-3
python -m tfdml.threshold --embeddings=validation.npz --precision=0.95
python -m tfdml.threshold --run_dir=runs/quickstart --far=1e-3 --into=photo_index
python -m tfdml.threshold --embeddings=embedded --far=1e-3 --into=photo_index
python -m tfdml.threshold --run_dir=runs/toycars_text --queries=text --far=1e-3 --into=photo_index
python -m tfdml.threshold --embeddings=embedded --queries=text --far=1e-3 --into=photo_index
"""

import json
import os

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir(
    "Directory of a run. The threshold is written to its threshold.json, or text_threshold.json."
)
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_float(
    "far",
    0.0,
    "Maximum false accept rate: the fraction of pairs of different classes that are accepted, such as 0.001.",
)
flags.DEFINE_float(
    "precision",
    0.0,
    "Instead of --far, the minimum fraction of accepted pairs that are of the same class, such as 0.95.",
)
flags.DEFINE_enum(
    "queries",
    "image",
    ["image", "text"],
    "What is compared with images: images, or texts of a model with a text tower. The texts are the captions of the "
    "run or, with --embeddings, the labels in the templates --captions. Each kind of search has its own threshold.",
)
flags.DEFINE_string(
    "captions",
    "",
    "With --embeddings and --queries=text, templates of texts with {} for the label, separated by |. If not set, the "
    "templates of the model, or a photo of a {}.",
)
flags.DEFINE_enum("split", "validation", ["validation", "test"], "Classes of the run to fit the threshold on.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset. If not set, the folder that the run used.")
flags.DEFINE_string(
    "embeddings", "", "Instead of a run, a .npy, .npz or .parquet file, or a folder written by tfdml.embed."
)
flags.DEFINE_string(
    "into",
    "",
    "Exported model or index to store the threshold in. Its model must be the model of the run, or the model that "
    "computed --embeddings, which must then be a folder written by tfdml.embed.",
)
flags.DEFINE_string("labels", "", "With --embeddings=FILE.npy, the .npy file with the labels.")
flags.DEFINE_string(
    "protocol",
    "",
    "With --embeddings, the protocol spec. If not set, self_retrieval, or query_gallery if queries are marked.",
)
tfdml_flags.define_import_modules()
flags.DEFINE_integer("samples", 2000, "Number of bootstrap resamples.", lower_bound=100)
flags.DEFINE_integer("seed", 0, "Random seed of the bootstrap.", lower_bound=0)


def main():
    values = flags.FLAGS
    if bool(values.run_dir) == bool(values.embeddings):
        received = "both" if values.run_dir else "neither"
        raise ValueError(f"Set exactly one of --run_dir and --embeddings. Received: {received}.")
    rates = [name for name in ("far", "precision") if values[name].present]
    if len(rates) != 1 or not 0 < values[rates[0]].value < 1:
        raise ValueError(
            "Set exactly one of --far and --precision to a number between 0 and 1, such as --far=0.001 or "
            "--precision=0.95."
        )
    if values.run_dir:
        command.refuse_unused(["labels", "protocol"], "--run_dir uses the labels and the protocol of the run")
    else:
        command.refuse_unused(["which", "split", "data_dir"], "the threshold is fitted on all --embeddings")
    of_texts = values.queries == "text"
    if of_texts:
        command.refuse_unused(["labels", "protocol"], "--queries=text compares texts with all images")
    if not of_texts or values.run_dir:
        command.refuse_unused(["captions"], "only --embeddings with --queries=text needs texts")
    elif not values.into:
        raise ValueError(
            "--queries=text with --embeddings needs --into, the exported model or index with the model that embeds the "
            "texts."
        )
    if values.into and values.embeddings and not os.path.isdir(values.embeddings):
        raise ValueError(
            "--into needs --embeddings to be a folder written by tfdml.embed, which records the model. Received: "
            f"--embeddings={values.embeddings}."
        )
    if values.run_dir or values.import_modules or values.into:
        command.import_package()
    # Imported here, because NumPy would slow down --help.
    from tfdml.run.experiment.labeled_embeddings import embeddings_of_files, embeddings_of_split, texts_of_split
    from tfdml.run.experiment.threshold import fit, write_threshold

    if values.run_dir:
        changes = command.given("data_dir", "import_modules")
        of_split = texts_of_split if of_texts else embeddings_of_split
        labeled = of_split(values.run_dir, values.which, values.split, changes)
    elif of_texts:
        labeled = _texts_of_model(values.embeddings, values.captions, values.into)
    else:
        labeled = embeddings_of_files(values.embeddings, values.labels, values.protocol, modules=values.import_modules)
    threshold = fit(labeled, {rates[0]: values[rates[0]].value}, values.samples, values.seed)
    print(in_words(threshold))
    if values.run_dir:
        write_threshold(values.run_dir, threshold)
    print(json.dumps(threshold.fitted))
    if values.into:
        from tfdml.serving.index.threshold import put_threshold

        put_threshold(values.into, threshold, values.embeddings)


def _texts_of_model(embeddings, templates, into):
    """Returns the `LabeledTexts` of embedded images, with texts of the labels by the model that embedded them."""
    from tfdml.run.experiment.labeled_embeddings import texts_of_files
    from tfdml.serving.exported_model import ExportedModel
    from tfdml.serving.index.threshold import check_embeddings, model_folder_of
    from tfdml.serving.model_card import templates_of

    folder = model_folder_of(into)
    check_embeddings(embeddings, folder)
    return texts_of_files(embeddings, templates or templates_of(folder), ExportedModel(folder).embed_texts)


def in_words(threshold):
    """Returns sentences that explain a `Threshold`."""
    from tfdml.run.experiment.threshold import for_people

    fit = threshold.fitted
    what, same, others = "", "of the same class", "of different classes"
    if threshold.queries == "text":
        what, same, others = " of a text and an image", "that belong together", "that do not"
    measure = "distance of at most" if fit["distance"] == "euclidean" else "similarity of at least"
    limit, *ends = (for_people(each, fit["distance"]) for each in (threshold.value, *fit["interval"]))
    accepted, pairs = fit["accepted"], fit["pairs"]
    on_test = fit.get("split") == "test"
    return (
        f"Accept pairs{what} with a {measure} {limit:.4f} (95% CI over {fit['classes']} classes: {min(ends):.4f} to "
        f"{max(ends):.4f}).\nThis accepts {accepted['same']:,} of {pairs['same']:,} pairs {same} "
        f"({fit['true_accept_rate']:.1%}) and {accepted['different']:,} of {pairs['different']:,} pairs {others} "
        f"(a false accept rate of {fit['false_accept_rate']:.2g})."
        + ("\nThe threshold was fitted on the test classes, so these rates are optimistic." if on_test else "")
    )


if __name__ == "__main__":
    # Stored embeddings do not need TensorFlow, which takes seconds to import.
    command.run(main, imports=False)
