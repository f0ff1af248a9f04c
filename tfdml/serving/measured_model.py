"""Sources of what `python -m tfdml.evaluate` measures: a run, or a model."""

from tfdml import registry
from tfdml.run.experiment.evaluated_embeddings import of_model, of_run
from tfdml.run.model_loading import load
from tfdml.serving.embedder_of_path import embedder_of


def source_of(given, changes):
    """Returns the `Source` of a split that a run's model or another one embeds.

    Args:
        given: the flags.
        changes: settings to use instead of the run's, name to value.
    """
    if given.model:
        return of_model(embedder_of, given)
    return of_run(given.run_dir, given.which, given.index, changes)


def embedder(given):
    """Returns the `ImageEmbedder` or `ExportedModel` of a run's model or another one.

    Args:
        given: the flags `import_modules`, `run_dir`, `which` and `model`.
    """
    registry.import_modules(given.import_modules)
    return load(given.run_dir, given.which) if given.run_dir else embedder_of(given.model)
