"""Embeddings to evaluate: of a run, or of a model and a dataset."""

from pipelines.datasets import load
from tfdml import registry
from tfdml.evaluation.protocols import protocol_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained
from tfdml.run.experiment.measurable import measurable
from tfdml.run.experiment.measured_source import Source


def of_run(run_dir, which, index, changes):
    """Returns the `Source` of a run's test split.

    Args:
        run_dir: folder of the run.
        which: `best` or `final`.
        index: spec of the index that is searched; empty: as the protocol says.
        changes: settings to use instead of the run's, name to value.
    """
    if "dataset" in changes:
        # These settings of the run are only for its own dataset, and its folder for datasets of that name.
        changes = {"protocol": "", "metrics": [], "ignore_images": "", **changes}
        own = RunDirectory(run_dir).settings().data.dataset
        if registry.parse(changes["dataset"])[0][0] != registry.parse(own)[0][0]:
            changes = {"data_dir": "", **changes}
    experiment, model = trained(run_dir, which, changes)
    split, settings = experiment.splits.test, experiment.settings
    metrics = measurable(experiment.splits.dataset, settings.evaluation.metrics)
    protocol = protocol_of(experiment.protocol_spec, metrics, index)
    about = {"run_dir": run_dir, "model": which, "dataset": settings.data.dataset, "split": "test"}
    about["protocol"] = experiment.protocol_spec
    return Source(about, protocol, experiment.embed(model, split), split)


def of_model(embedder_of, given):
    """Returns the `Source` of a dataset's test split, as a model embeds it.

    Args:
        embedder_of: function from the path of a model to its `ImageEmbedder` or `ExportedModel`.
        given: flags `model`, `import_modules`, `dataset`, `data_dir`, `protocol`, `metrics` and `index`.
    """
    registry.import_modules(given.import_modules)
    if not given.dataset:
        raise ValueError("--model needs --dataset, the spec of the dataset to evaluate on.")
    # Before a dataset is read: a wrong path is told at once.
    embedder = embedder_of(given.model)
    dataset = load(given.dataset, data_dir=given.data_dir, test_only=True)
    spec = given.protocol or dataset.protocol
    protocol = protocol_of(spec, measurable(dataset, given.metrics), given.index)
    embeddings = embedder.embed_split(dataset.test)
    about = {"model": given.model, "dataset": given.dataset, "split": "test", "protocol": spec}
    return Source(about, protocol, embeddings, dataset.test)
