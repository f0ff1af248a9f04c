"""Loads a model that embeds images, of whatever kind its path is."""

from tfdml.run.loading import is_loadable, load
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.presets.preset import from_preset, is_preset


def embedder_of(model):
    """Returns the `ImageEmbedder` of a `.keras` file, a run or a preset, or the `ExportedModel` of a SavedModel.

    Args:
        model: its path or address, as `--model` gives it.
    """
    if is_preset(model):
        return from_preset(model)
    if is_loadable(model):
        return load(model)
    try:
        return ExportedModel(model)
    except ValueError as error:
        raise ValueError(f"--model={error} A .keras file or the folder of a run needs no export.") from None
