"""Models and weights on disk, with errors that name the file."""

import warnings
from pathlib import Path

from keras import ops

from tfdml.backbones.published_weights import advice
from tfdml.backbones.weights import adapted_layers, load_by_name, save_adapter
from tfdml.files.checked import flush, open_file, vacated
from tfdml.runtime.keras_internals import not_compiled


def load_weights(backbone, path):
    """Gives a backbone its initial weights; returns a line that says what was loaded.

    Args:
        backbone: `Backbone`.
        path: a `.weights.h5` file, loaded by the names of layers; a file of keras.applications; or `imagenet`: what the
            backbone downloads itself; or the name of weights that come with tfdml, such as `toycars` for `small`.
    """
    loaded = _loaded(backbone, path)
    wrong = next((weight.path for weight in backbone.weights if not ops.all(ops.isfinite(weight))), None)
    if wrong is not None:
        raise ValueError(
            f"--initial_weights={path} has numbers in {wrong} that are NaN or infinite. Expected finite ones. Use "
            "another file, such as an earlier one of the same model."
        )
    return loaded


def _loaded(backbone, path):
    """Loads weights as `load_weights` does, whatever their values."""
    if path == "imagenet":
        return f"--initial_weights={path}: {_load_imagenet(backbone)}"
    file = backbone.shipped_weights.get(path, path)
    if not Path(file).exists():
        names = _names(backbone)
        known = f", and {backbone.name} knows by name: {', '.join(names)}" if names else ""
        raise FileNotFoundError(f"--initial_weights={path}: no such file{known}. {advice(backbone)}".strip())
    try:
        open_file(file).close()
        if str(file).endswith(".weights.h5"):
            return f"--initial_weights={path}: {load_by_name(backbone, file)}."
        with warnings.catch_warnings():
            # Keras warns of each layer that does not fit before it raises; the error says it once.
            warnings.simplefilter("ignore")
            backbone.load_weights(file)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        # Of damaged files h5py raises the last two. Keras says that objects could not be loaded, then which and why.
        reason = " ".join(str(error).split())
        raise ValueError(f"--initial_weights={path} does not fit the backbone: {reason}") from None
    return f"--initial_weights={path}: all parameters loaded, in their order."


def ways_to_weights(backbone):
    """Returns what `load_weights` takes for a backbone, in words."""
    return f"{', or '.join([*_names(backbone), 'a weights file (.weights.h5)'])}. {advice(backbone)}".strip()


def _names(backbone):
    """Returns the names of weights that a backbone knows."""
    return [*["imagenet"] * backbone.downloads_imagenet, *backbone.shipped_weights]


def _load_imagenet(backbone):
    if backbone.downloads_imagenet:
        backbone.load_imagenet()
        return "all parameters loaded."
    how = (
        advice(backbone)
        or "Backbones of keras_applications have one, those of keras_hub and keras_cv come with theirs."
    )
    raise ValueError(f"--initial_weights=imagenet: {backbone.name} has no download of its own. {how}")


def save_best(model, run):
    """Saves the best model of a run so far, and beside it what LoRA has changed.

    Args:
        model: the model.
        run: `RunDirectory`.
    """
    save_model(model, run.model)
    # A user's own method may have no backbone.
    if model.backbone is not None and adapted_layers(model.backbone):
        save_adapter(model.backbone, run.adapter)


def load_best(model, run):
    """Gives a model the weights of the best one of its run, which `save_best` has saved."""
    # Keras would warn that the file has no state for the optimizer.
    with not_compiled(model):
        model.load_weights(run.model)


def save_model(model, path):
    """Saves a model, without its optimizer, so that `path` holds a whole model at any time.

    A run goes on from a checkpoint, which has the state of the optimizer.
    """
    temporary = path.with_name(f".writing-{path.name}")
    try:
        with not_compiled(model):
            model.save(vacated(temporary))
        flush(temporary)
        temporary.rename(path)
    except OSError as error:
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Make room, then run the command again."
        ) from error
