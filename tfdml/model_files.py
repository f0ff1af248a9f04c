"""Models and weights on disk, with errors that name the file."""

import warnings

from tfdml.checkpoint import flush


def load_weights(backbone, path):
    """Loads a backbone's weights file, with an error that names it."""
    try:
        with warnings.catch_warnings():
            # Keras warns of each layer that does not fit before it raises; the error says it once.
            warnings.simplefilter("ignore")
            backbone.load_weights(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"--initial_weights={path}: no such file.") from None
    except (ValueError, OSError) as error:
        # Keras says first that objects could not be loaded, and then which and why.
        reason = " ".join(str(error).split())
        raise ValueError(f"--initial_weights={path} does not fit the backbone: {reason}") from None


def save_model(model, path):
    """Saves so that `path` holds a whole model at any time."""
    temporary = path.with_name(f".writing-{path.name}")
    try:
        model.save(temporary)
        flush(temporary)
        temporary.rename(path)
    except OSError as error:
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Make room, then run the command again."
        ) from error
