"""Models as users have them, for an index."""

import os

import keras

from pipelines.preprocessing import Preprocessor
from tfdml.run.loading import ImageEmbedder, is_loadable, load
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model import export
from tfdml.serving.index.array_embedder import ArrayEmbedder


def model_of(model, folder=None):
    """Returns the `ExportedModel` or the `ArrayEmbedder` of a model; None for None.

    Args:
        model: an exported model or its folder, a run or a `.keras` file or what `tfdml.load` makes of them, a Keras
            model, or a function from images to embeddings.
        folder: where a model that is not exported yet is exported to; None: such a model is an error.
    """
    if model is None or isinstance(model, ExportedModel | ArrayEmbedder):
        return model
    if isinstance(model, str | os.PathLike):
        if not is_loadable(model):
            return ExportedModel(model)
        model = load(model)
    if isinstance(model, ImageEmbedder):
        if folder is None:
            raise ValueError("An index of such a model has it with it: open it without a model.")
        export(model.model, Preprocessor.of(model.preprocessing), folder, tolerant=True)
        return ExportedModel(folder)
    if isinstance(model, keras.Model) or callable(model):
        return ArrayEmbedder(model)
    raise ValueError(
        "Expected an exported model, what tfdml.load returns, a Keras model or a function from images to embeddings, "
        f"received {type(model).__name__}."
    )
