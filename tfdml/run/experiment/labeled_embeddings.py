"""Embeddings of labeled images or pairs, and their metrics and thresholds.

Embeddings from files are measured without TensorFlow, because its import is about as slow as the measurement.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml import registry
from tfdml.console.settings import values_of
from tfdml.evaluation.metrics import PairMetric, metrics_of
from tfdml.evaluation.protocols import protocol_of
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.evaluation.verification.pair_list import PairList, named_embeddings, similarities_of_pairs
from tfdml.evaluation.verification.thresholds import metric_intervals, verified
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory


class LabeledEmbeddings(NamedTuple):
    """Embeddings `[N, d]` of labeled images, and the `Protocol` that measures them.

    `facts` describes what is measured, from name to value. `rows` is a `Split` or `EmbeddingFiles`, from which the
    protocol reads labels and other columns of the embedded images.
    """

    facts: dict
    protocol: object
    embeddings: object
    rows: object

    def scores(self):
        """Returns the `Scores` of all metrics of the protocol."""
        return self.protocol.scores(self.embeddings, self.rows)

    def per_class(self, scores):
        """Returns the means over the queries of each class, by the name of the class."""
        names, means = self.rows.class_names or {}, scores.per_class(self.rows.labels)
        return {str(names.get(label, label)): values for label, values in means.items()}

    def intervals(self, scores, of_classes):
        """Returns bootstrap intervals of means over queries, and of pair metrics if classes are resampled."""
        intervals, clusters = {}, None
        metrics = [metric for metric in self.protocol.metrics if isinstance(metric, PairMetric)]
        if of_classes:
            clusters = self.rows.labels[scores.queries] if scores.per_query else None
            of_pairs = [metric for metric in metrics if scores.values[metric.name] is not None]
            # A protocol with several searches has no single set of pairs.
            if of_pairs and len(self.protocol.tasks(self.rows)) == 1:
                intervals = metric_intervals(self.protocol.pairs(self.embeddings, self.rows), of_pairs)
        if scores.per_query or not intervals:
            intervals = {**bootstrap_intervals(scores.per_query, clusters), **intervals}
        return intervals


class LabeledTexts(NamedTuple):
    """Embeddings `[N, d]` of images and `[M, d]` of texts, on which a threshold for text queries is fitted.

    `facts` describes what is measured, from name to value. `pairs` `[P, 2]` are the rows of images and of texts that
    belong together, and `labels` `[N]` the classes of images.
    """

    facts: dict
    images: np.ndarray
    texts: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray


def embeddings_of_files(embeddings, labels="", protocol="", metrics=(), index="", modules=()):
    """Returns the `LabeledEmbeddings` of a file with embeddings, or of a `tfdml.embed` folder.

    Args:
        embeddings: path of the file or folder.
        labels: file with labels, if the embeddings do not include any.
        protocol: spec. If empty, `self_retrieval`, or `query_gallery` if rows are marked as queries.
        metrics, index: specs. If empty, the protocol's own.
        modules: modules that register the user's components.
    """
    registry.import_modules(modules)
    files = EmbeddingFiles.read(embeddings, labels)
    spec = protocol or ("self_retrieval" if files.is_query is None else "query_gallery")
    facts = {"embeddings": embeddings, "protocol": spec}
    return LabeledEmbeddings(facts, protocol_of(spec, metrics, index), files.embeddings, files)


def embeddings_of_run(run_dir, which, index, changes):
    """Returns the `LabeledEmbeddings` of a run's test split, by its `best` or `final` model.

    `index` is the spec of the index to search, by default the protocol's. `changes` replaces settings of the run.
    """
    from tfdml.run.experiment.experiment import trained
    from tfdml.run.experiment.splits import measurable

    if "dataset" in changes:
        # The folder of the run's dataset also applies to other datasets with the same name.
        changes = {**values_of("on_another_dataset"), **changes}
        before = RunDirectory(run_dir).settings().data.dataset
        if registry.parse(changes["dataset"])[0][0] != registry.parse(before)[0][0]:
            changes = {"data_dir": "", **changes}
    experiment, model = trained(run_dir, which, changes)
    split, settings = experiment.splits.test, experiment.settings
    metrics = measurable(experiment.splits.dataset, settings.evaluation.metrics)
    protocol = protocol_of(experiment.protocol_spec, metrics, index)
    facts = {"run_dir": run_dir, "model": which, "dataset": settings.data.dataset, "split": "test"}
    facts["protocol"] = experiment.protocol_spec
    return LabeledEmbeddings(facts, protocol, experiment.embed(model, split), split)


def embeddings_of_model(make_embedder, path, dataset, data_dir="", protocol="", metrics=(), index="", modules=()):
    """Returns the `LabeledEmbeddings` of a dataset's test split by any model.

    `make_embedder` creates an `ImageEmbedder` or `ExportedModel` from `path`. The protocol is the dataset's by default.
    For other arguments, see `embeddings_of_files`.
    """
    from pipelines.datasets import load
    from tfdml.run.experiment.splits import measurable

    registry.import_modules(modules)
    # The embedder is created before the dataset is read, so that a wrong path raises an error at once.
    embedder = make_embedder(path)
    images = load(dataset, data_dir=data_dir, test_only=True)
    spec = protocol or images.protocol
    measure = protocol_of(spec, measurable(images, metrics), index)
    facts = {"model": path, "dataset": dataset, "split": "test", "protocol": spec}
    return LabeledEmbeddings(facts, measure, embedder.embed_split(images.test), images.test)


def embeddings_of_split(run_dir, which, split, changes):
    """Returns the `LabeledEmbeddings` of a run's model on its `validation` or `test` classes."""
    experiment, model, images, facts = _opened_split(run_dir, which, split, changes)
    return LabeledEmbeddings(facts, experiment.splits.protocol, experiment.embed(model, images), images)


def _opened_split(run_dir, which, split, changes):
    """Returns the experiment and the model of a run, the split's images, and facts about them."""
    from tfdml.run.experiment.experiment import trained
    from tfdml.run.experiment.splits import on_validation

    if split == "validation":
        changes = on_validation(changes, run_dir, "use --split=test to fit on the test classes")
    experiment, model = trained(run_dir, which, changes, test_only=split == "test")
    images = experiment.splits.test if split == "test" else experiment.splits.evaluation
    facts = {
        "run_dir": run_dir,
        "model": which,
        "sha256": sha256_of(RunDirectory(run_dir), which),
        "dataset": experiment.settings.data.dataset,
        "split": split,
        "protocol": experiment.protocol_spec,
    }
    return experiment, model, images, facts


def texts_of_split(run_dir, which, split, changes):
    """Returns the `LabeledTexts` of a run's model with a text tower, on its `validation` or `test` images."""
    from tfdml.methods import TwoTowers
    from tfdml.run.experiment.images import captions_of

    experiment, model, images, facts = _opened_split(run_dir, which, split, changes)
    if not isinstance(model, TwoTowers):
        raise ValueError(
            f"{run_dir} has a {type(model).__name__} model, which has no text tower. Expected a run with "
            "--method=two_towers."
        )
    captions = captions_of(images)
    texts = model.embed_texts(captions.texts)
    return LabeledTexts(facts, experiment.embed(model, images), texts, captions.pairs, images.labels)


def texts_of_files(embeddings, templates, embed_texts):
    """Returns the `LabeledTexts` of a `tfdml.embed` folder, with texts made of the labels.

    Args:
        embeddings: path of the folder.
        templates: templates of texts, separated by `|`; see `pipelines.captions.filled`.
        embed_texts: function from N strings to embeddings `[N, d]`, by the model that embedded the images.
    """
    from pipelines.captions import filled

    files = EmbeddingFiles.read(embeddings)
    classes, places = np.unique(files.labels, return_inverse=True)
    names = [str((files.class_names or {}).get(each, each)) for each in classes.tolist()]
    texts = filled(templates, names)
    rows = places[:, None] * len(texts[0]) + np.arange(len(texts[0]))
    pairs = np.stack([np.repeat(np.arange(len(files.labels)), len(texts[0])), rows.ravel()], axis=1)
    vectors = embed_texts([text for several in texts for text in several])
    return LabeledTexts({"embeddings": embeddings, "captions": templates}, files.embeddings, vectors, pairs, places)


METRICS = ("roc_auc", "equal_error_rate", "tar_at_far_0.1", "tar_at_far_0.01", "tar_at_far_0.001")


def verified_pairs(file, metrics=(), *, embeddings="", folder="", make_embedder=None, modules=()):
    """Measures decisions by cosine similarity about the pairs in a file.

    By default, these are all `METRICS` for which there are enough pairs. Embeddings are read from a file with names, or
    computed from images in a folder by the `ImageEmbedder` or `ExportedModel` that `make_embedder` returns. `modules`
    register the user's components of its model.
    """
    chosen = metrics_of(tuple(metrics) or METRICS)
    others = [metric.name for metric in chosen if not (isinstance(metric, PairMetric) and metric.of_counts)]
    if others:
        raise ValueError(
            "With --pairs, --metrics must measure decisions about pairs, such as roc_auc. Received: "
            f"{','.join(others)}."
        )
    pairs = PairList.read(file)
    if embeddings:
        vectors, names = named_embeddings(embeddings)
        rows = pairs.rows(names, embeddings)
    else:
        from pipelines.reading.sources import split_of

        there = {name: row for row, name in enumerate(pairs.names) if Path(folder, name).is_file()}
        rows = pairs.rows(there, folder or "the working directory")
        registry.import_modules(modules)
        vectors = make_embedder().embed_split(split_of([Path(folder, name) for name in pairs.names]))
    rows, places = np.unique(rows, return_inverse=True)
    scores = similarities_of_pairs(ExactVectors.of(vectors[rows]), *places.reshape(2, -1))
    if not metrics:
        different = int(np.sum(~pairs.same))
        chosen = [metric for metric in chosen if metric.negatives_needed <= different]
    return verified(scores, pairs.same, pairs.folds, chosen)
