"""Loads trained models from files."""

from pathlib import Path
from typing import Literal

from pipelines.preprocessing import Preprocessing
from tfdml import registry
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import FilePath
from tfdml.registry.fields import declared
from tfdml.run.directory.model_archive import damage_of, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.directory.user_modules import check_modules
from tfdml.run.image_embedder import ImageEmbedder


@declared
def load(
    run_or_file: FilePath,
    model: Literal["best", "final"] = "best",
    preprocessing: Preprocessing | None = None,
    trust: bool = False,
) -> ImageEmbedder:
    """Loads a trained model with its preprocessing, to embed images.

    The model's file includes the preprocessing, so a copy of that file alone is enough.

    Args:
        run_or_file: a run directory, or a `.keras` file.
        model: the model of the run directory, `best` or `final`.
        preprocessing: `tfdml.Preprocessing` for a model that was saved without one; None: the model's own.
        trust: whether to import the modules that the run names in its `--import_modules`, which are programs. Those
            that you have imported need no trust.

    Returns:
        An `ImageEmbedder`; its `model` is the Keras model.

    Example: `embeddings = tfdml.load("runs/quickstart").embed(["car.jpg", "other_car.jpg"])`.
    """
    path = Path(run_or_file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: expected a run directory, or a .keras file.")
    if path.suffix == ".h5" and path.is_file():
        raise ValueError(
            f"{path} is not a .keras file, and a file of weights does not contain their model. Expected a run "
            "directory, or a .keras file. Make the model as it was trained, build it, and call "
            "model.load_weights(file). Then model.save('model.keras') saves both."
        )
    folder = path if path.is_dir() else path.parent
    # The flags name modules that register parts of the model.
    settings = RunDirectory(folder).settings() if path.is_dir() or (folder / "flags.txt").is_file() else None
    modules = settings.run.import_modules if settings else ()
    check_modules(modules, folder, trusted=modules if trust else ())
    registry.import_modules(modules)
    file = RunDirectory(path).model_file(model) if path.is_dir() else path
    # That of a run has been looked at: it is read whole for that.
    if not path.is_dir() and (damage := damage_of(file)):
        raise ValueError(f"{file} is not a Keras model, or is damaged: {damage}.")
    loaded = load_archive(file)
    if not isinstance(loaded, EmbeddingModel):
        raise ValueError(f"Expected a model of tfdml.methods, but {file} contains a {type(loaded).__name__}.")
    loaded.preprocessing = preprocessing or loaded.preprocessing
    return ImageEmbedder(loaded, source=file)


def is_loadable(path: FilePath) -> bool:
    """Whether `load` is for a path, by what it looks like: a file, or the folder of a run."""
    return Path(path).is_file() or RunDirectory(path).has_flags
